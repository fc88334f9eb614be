//go:build unix

package devbouncer

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/devaccount"
)

const (
	// startLimit is how long a bouncer may take to answer.
	startLimit = 30 * time.Second
	// port is a part of the socket's name; nothing listens on TCP.
	port = "6432"
	// adminUser may use the admin console. It is its password too.
	adminUser = "bouncer_admin"
)

// Options say which bouncer to run, and in front of what.
type Options struct {
	// Server is the URL of the PostgreSQL server; its user and password are the bouncer's towards the server, its database does not matter.
	Server string
	// Version is the version wanted, such as "1.18" or "1.24". "" takes the first that is found on the machine, and fetches one when there
	// is none.
	Version string
	// PoolSize is how many connections to the server each database and user has at most. Default: 2.
	PoolSize int
	// Params are settings of the section pgbouncer, by name, that override the defaults of this package, such as "pool_mode".
	Params map[string]string
}

// Bouncer is one PgBouncer. Its methods may be called from any goroutine.
type Bouncer struct {
	options Options
	program program
	account *devaccount.Account
	dir     string
	server  *pgconn.Config

	mu      sync.Mutex // guards process, and orders starting and stopping
	process *process   // nil while the bouncer is stopped
}

// Start runs a bouncer and returns when it answers. Its errors say what to install or to set when there is no bouncer to be had.
func Start(ctx context.Context, o Options) (*Bouncer, error) {
	server, err := pgconn.ParseConfig(o.Server)
	if err != nil {
		return nil, fmt.Errorf("read the server's URL: %w", err)
	}
	p, err := findProgram(ctx, o.Version)
	if err != nil {
		return nil, fmt.Errorf("find PgBouncer: %w", err)
	}
	a, err := devaccount.Unprivileged("PgBouncer")
	if err != nil {
		return nil, fmt.Errorf("choose the user of PgBouncer: %w", err)
	}
	b := &Bouncer{options: o, program: p, account: a, server: server}
	if b.dir, err = os.MkdirTemp("", "outbox-bouncer-"); err != nil {
		return nil, fmt.Errorf("make the folder of PgBouncer: %w", err)
	}
	if err := errors.Join(b.writeSettings(), a.Own(b.dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("write the settings of PgBouncer: %w", err), b.Cleanup())
	}
	if err := b.Start(ctx); err != nil {
		return nil, errors.Join(err, b.Cleanup())
	}
	return b, nil
}

// URL is the address of a database behind the bouncer. It stays the same over restarts.
func (b *Bouncer) URL(database string) string { return b.url(url.User(b.server.User), database) }

func (b *Bouncer) url(user *url.Userinfo, database string) string {
	query := url.Values{"host": {b.dir}, "port": {port}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: user, Path: "/" + database, RawQuery: query.Encode()}
	// Without a host between them, user and database make a URL that parsers refuse.
	return strings.Replace(u.String(), "@/", "@localhost/", 1)
}

// Version is the bouncer's version, such as "1.18.0".
func (b *Bouncer) Version() string { return b.program.version }

// Command runs a command of the admin console, such as PAUSE or SHOW POOLS, and returns the rows of its answer, each by the columns' names.
func (b *Bouncer) Command(ctx context.Context, command string) ([]map[string]string, error) {
	conn, err := pgconn.Connect(ctx, b.url(url.UserPassword(adminUser, adminUser), "pgbouncer"))
	if err != nil {
		return nil, fmt.Errorf("connect to the admin console: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	results, err := conn.Exec(ctx, command).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("command %s: %w", command, err)
	}
	var rows []map[string]string
	for _, r := range results {
		for _, values := range r.Rows {
			row := map[string]string{}
			for i, field := range r.FieldDescriptions {
				row[field.Name] = string(values[i])
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Start runs a stopped bouncer again, under the same address, and returns when it answers. Starting a running one does nothing.
func (b *Bouncer) Start(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process != nil {
		return nil
	}
	p, err := b.launch()
	if err != nil {
		return fmt.Errorf("start PgBouncer %s: %w", b.program.version, err)
	}
	if err := b.waitReady(ctx, p); err != nil {
		p.kill()
		return fmt.Errorf("start PgBouncer %s: %w; the end of its log:\n%s", b.program.version, err, b.logTail())
	}
	b.process = p
	return nil
}

// Kill ends the bouncer at once, as a crash does. It returns when it is gone; killing a stopped one does nothing.
func (b *Bouncer) Kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process == nil {
		return
	}
	b.process.kill()
	b.process = nil
}

// Cleanup ends the bouncer and removes its folder. The bouncer cannot be used any more.
func (b *Bouncer) Cleanup() error {
	b.Kill()
	return os.RemoveAll(b.dir)
}

// waitReady returns when the admin console answers.
func (b *Bouncer) waitReady(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := b.Command(ctx, "SHOW VERSION")
		if err == nil {
			return nil
		}
		select {
		case <-p.gone:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-tick.C:
		}
	}
}

func (b *Bouncer) logFile() string { return filepath.Join(b.dir, "bouncer.log") }

func (b *Bouncer) logTail() []byte {
	const size = 4096
	log, err := os.ReadFile(b.logFile())
	if err != nil {
		return []byte(err.Error())
	}
	return log[max(0, len(log)-size):]
}
