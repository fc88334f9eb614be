//go:build integration && unix

package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/inbox"
	"github.com/outbox-relay/outbox/kafka"
)

// memberVariable makes this program a member; it holds a setup.
const memberVariable = "OUTBOX_TEST_MEMBER"

// setup is what a member is told.
type setup struct {
	URL, Topic, Group string
	Brokers           []string
	Batch             int
	NextGen           bool
	Instance          string
}

// sessionTimeout is the least that brokers allow.
const sessionTimeout = 6 * time.Second

// paid is the payload of an event.
type paid struct {
	Account string `json:"account"`
	Seq     int    `json:"seq"`
	// Poison fails that many times, for ever if negative.
	Poison int `json:"poison"`
}

const paidType = "payment.made.v1"

// member handles events until SIGTERM.
func member() int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var s setup
	if err := json.Unmarshal([]byte(os.Getenv(memberVariable)), &s); err != nil {
		log.Error("read the setup", "error", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, s.URL)
	if err != nil {
		log.Error("open the database", "error", err)
		return 1
	}
	defer pool.Close()
	handlers := inbox.NewHandlers[pgx.Tx]()
	inbox.On(handlers, paidType, pay)
	p, err := inbox.NewProcessor(s.Group, inbox.Pool(pool), handlers, inbox.Config{Logger: log})
	if err != nil {
		log.Error("make the handlers", "error", err)
		return 1
	}
	session := sessionTimeout
	if s.NextGen {
		session = 0 // the brokers have it
	}
	c, err := kafka.NewConsumer(p, kafka.ConsumerConfig{
		Config: kafka.Config{Brokers: s.Brokers, Logger: log}, Topics: []string{s.Topic}, NextGen: s.NextGen, SessionTimeout: session, Instance: s.Instance,
		Run: inbox.RunnerConfig{
			Workers: 4, Batch: s.Batch, CommitInterval: 200 * time.Millisecond,
			Retry: inbox.Retry{Attempts: 3, Backoff: 5 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, GiveUp: inbox.DeadLetter},
		},
	})
	if err == nil {
		err = c.Run(ctx)
	}
	if err != nil {
		log.Error("consume", "error", err)
		return 1
	}
	return 0
}

// pay writes down each effect without a unique constraint: it is for the inbox to keep them single.
func pay(ctx context.Context, tx pgx.Tx, e inbox.Event[paid]) error {
	if e.Payload.Poison != 0 {
		return errors.New("no such account")
	}
	if _, err := tx.Exec(ctx, `INSERT INTO effect (event_id, account, seq) VALUES ($1, $2, $3)`, e.ID, e.Payload.Account, e.Payload.Seq); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE account SET balance = balance + 1 WHERE name = $1`, e.Payload.Account)
	return err
}

// process is a running member.
type process struct {
	*exec.Cmd
	ended chan struct{}
}

func begin(t *testing.T, s setup, out io.Writer) *process {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // most are killed
	}()
	return p
}

// kill ends the member as a crash does.
func (p *process) kill() {
	_ = p.Process.Kill() // it may have ended by itself
	<-p.ended
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

func (s setup) how() string {
	return fmt.Sprintf("%d events in a transaction, brokers assign: %v", s.Batch, s.NextGen)
}
