package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/inbox"
)

type followedKey struct{}

// follower writes down what it is told.
type follower struct {
	mu   sync.Mutex
	told []string
}

func (f *follower) tell(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, fmt.Sprintf(format, args...))
}

func (f *follower) Handling(ctx context.Context, consumer string, e inbox.Event[[]byte]) (context.Context, func(error)) {
	f.tell("%s begins %s %s of %s", consumer, e.Type, e.ID, e.Record.Place())
	return context.WithValue(ctx, followedKey{}, e.ID), func(err error) { f.tell("%s ends: %v", e.ID, err) }
}

func TestATracerFollowsEachCallOfAHandler(t *testing.T) {
	t.Parallel()
	db := account(t)
	tracer := &follower{}
	h := inbox.NewHandlers[pgx.Tx]()
	inbox.On[deposit](h, deposited, func(ctx context.Context, _ pgx.Tx, e inbox.Event[deposit]) error {
		if got := ctx.Value(followedKey{}); got != e.ID {
			return fmt.Errorf("the handler's context is that of %v", got)
		}
		switch e.Payload.Account {
		case "fails":
			return errHandler
		case "panics":
			panic("no account")
		}
		return nil
	})
	p, err := inbox.NewProcessor("billing", inbox.Pool(db.Pool(t)), h, inbox.Config{Tracer: tracer})
	if err != nil {
		t.Fatal(err)
	}
	good := record(0, "a", deposited, "k", `{}`)
	p.Handle(t.Context(), []*inbox.Record{good})
	out := p.Handle(t.Context(), []*inbox.Record{good, record(1, "", "other.v1", "k", `{}`)})
	if out[0].Err != nil || out[0].Result != inbox.Repeat || out[1].Result != inbox.Ignored {
		t.Fatalf("outcomes %+v, want a repeat and one that is ignored", out)
	}
	p.Handle(t.Context(), []*inbox.Record{record(2, "b", deposited, "k", `{"account": "fails"}`)})
	p.Handle(t.Context(), []*inbox.Record{record(3, "c", deposited, "k", `{"account": "panics"}`)})
	want := []string{
		"billing begins deposited.v1 a of shop.order, partition 0, offset 0", "a ends: <nil>",
		"billing begins deposited.v1 b of shop.order, partition 0, offset 2", "b ends: no such account",
		"billing begins deposited.v1 c of shop.order, partition 0, offset 3", "c ends: ",
	}
	if len(tracer.told) != len(want) || !slices.Equal(tracer.told[:5], want[:5]) || !strings.Contains(tracer.told[5], "panic") {
		t.Errorf("told\n%s, want\n%s", strings.Join(tracer.told, "\n"), strings.Join(want, "\n"))
	}
}

func TestWhatIsUndoneBecauseOfAnotherRecordIsFollowedAgain(t *testing.T) {
	t.Parallel()
	db := account(t)
	tracer := &follower{}
	p := billing(t, db.Pool(t), inbox.Config{Tracer: tracer})
	out := p.Handle(t.Context(), []*inbox.Record{record(0, "a", deposited, "k", `{}`), record(1, "b", deposited, "other", `{"account": "fails"}`)})
	if out[0].Err != nil || !errors.Is(out[1].Err, errHandler) || balance(t, db) != 1 {
		t.Fatalf("outcomes %+v, balance %d", out, balance(t, db))
	}
	begun := 0
	for _, line := range tracer.told {
		if strings.HasPrefix(line, "billing begins deposited.v1 a ") {
			begun++
		}
	}
	if begun != 2 || len(tracer.told) != 8 {
		t.Errorf("told %q, want each twice", tracer.told)
	}
}
