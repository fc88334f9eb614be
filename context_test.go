package outbox_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox"
)

type tracedKey struct{}

// spanned is a context in which something is traced.
func spanned(t *testing.T) context.Context {
	t.Helper()
	return context.WithValue(t.Context(), tracedKey{}, map[string]string{"traceparent": "00-1", "tracestate": "a=b"})
}

func ofContext(ctx context.Context) map[string]string {
	headers, _ := ctx.Value(tracedKey{}).(map[string]string)
	return headers
}

func TestTheContextsHeadersAreStoredBesideTheEventsOwn(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]outbox.HeadersMode{"ask": outbox.HeadersAsk, "assumed": outbox.HeadersAssumed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := setup(t)
			run(t, pool, `ALTER TABLE outbox_event ADD COLUMN headers jsonb`)
			w := newWriter(t, outbox.Config{ContextHeaders: ofContext, Headers: mode})
			tx := begin(t, pool)
			plain, tenant, own, cased := confirmed(), confirmed(), confirmed(), confirmed()
			tenant.Headers = map[string]string{"tenant": "7"}
			own.Headers = map[string]string{"traceparent": "own"}
			cased.Headers = map[string]string{"TraceState": "own"}
			before := maps.Clone(tenant.Headers)
			events := []outbox.Event{plain, tenant, own, cased}
			if _, err := w.Write(spanned(t), tx, events...); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(t.Context(), tx, confirmed()); err != nil {
				t.Fatal(err)
			}
			got := query(t, tx, `SELECT coalesce(headers::text, 'NULL') FROM outbox_event ORDER BY id`)
			want := []string{
				`{"tracestate": "a=b", "traceparent": "00-1"}`, `{"tenant": "7", "tracestate": "a=b", "traceparent": "00-1"}`, `{"traceparent": "own"}`, `{"TraceState": "own"}`, "NULL",
			}
			if !slices.Equal(got, want) {
				t.Errorf("headers\n%q, want\n%q", got, want)
			}
			if !maps.Equal(tenant.Headers, before) || events[0].Headers != nil {
				t.Error("the caller's events were changed")
			}
		})
	}
}

func TestTheContextsHeadersAreLeftOutWithoutAColumnForThem(t *testing.T) {
	t.Parallel()
	for name, ddl := range map[string]string{"no column": "", "another type": "ALTER TABLE outbox_event ADD COLUMN headers text"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := setup(t)
			run(t, pool, ddl)
			w := newWriter(t, outbox.Config{ContextHeaders: ofContext})
			tx := begin(t, pool)
			if _, err := w.Write(spanned(t), tx, confirmed(), confirmed()); err != nil {
				t.Fatal(err)
			}
			own := confirmed()
			own.Headers = map[string]string{"tenant": "7"}
			if _, err := w.Write(spanned(t), tx, confirmed(), own); !errors.Is(err, outbox.ErrNoHeadersColumn) {
				t.Errorf("with headers of an event's own: error %v, want ErrNoHeadersColumn", err)
			}
			if got := query(t, tx, `SELECT count(*)::text FROM outbox_event`); got[0] != "2" {
				t.Errorf("%s events stored, want 2", got[0])
			}
			usable(t, tx)
		})
	}
}

func TestTheContextsHeadersAreCheckedAsTheEventsOwn(t *testing.T) {
	t.Parallel()
	w := newWriter(t, outbox.Config{ContextHeaders: func(context.Context) map[string]string {
		return map[string]string{"a": "\x00", outbox.HeaderEventID: "1"}
	}})
	_, err := w.PrepareContext(t.Context(), confirmed())
	if !errors.Is(err, outbox.ErrInvalid) || !strings.Contains(err.Error(), `Headers["a"]`) || !strings.Contains(err.Error(), "the name is taken") {
		t.Errorf("error %v", err)
	}
}

func TestWithoutHeadersInTheContextNothingIsAskedOrAllocated(t *testing.T) {
	off := newWriter(t, outbox.Config{})
	on := newWriter(t, outbox.Config{ContextHeaders: ofContext})
	ctx, event := t.Context(), confirmed()
	count := func(w *outbox.Writer) float64 {
		return testing.AllocsPerRun(200, func() {
			p, err := w.PrepareContext(ctx, event)
			if err != nil {
				t.Fatal(err)
			}
			if sql, _ := p.Question(); sql != "" {
				t.Fatalf("it is asked %s", sql)
			}
		})
	}
	if a, b := count(off), count(on); a != b {
		t.Errorf("%v allocations with nothing in the context, %v without ContextHeaders", b, a)
	}
}
