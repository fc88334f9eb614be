package benchmark

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/postgres"
)

func TestARunMeasuresEverythingAndLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key) VALUES (gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 'shop.order', '1')`)
	c := w.config()
	b := w.bench(t, c)
	p := w.plan(t, b)
	if p.StateSchema || p.Leftovers.Any() || p.Topic != strings.ReplaceAll(p.Schema, "_", "-") {
		t.Errorf("plan: %+v", p)
	}
	if left := w.traces(t); len(left) > 0 {
		t.Errorf("a plan makes %q", left)
	}
	r, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Database.RoundTrip.P50 <= 0 || r.Database.Commit.P50 <= 0 || r.Database.Version == "" || r.Kafka.Produce.P50 <= 0 || r.Kafka.RoundTrip.P50 <= 0 || r.Kafka.Partitions != 3 {
		t.Errorf("probes: %+v %+v", r.Database, r.Kafka)
	}
	if r.Drain.Events != c.Events || r.Drain.PerSecond <= 0 || r.Drain.Read <= 0 || r.Drain.Settle <= 0 || r.Drain.Publish <= 0 {
		t.Errorf("drain: %+v", r.Drain)
	}
	if r.Latency.Missing != 0 || r.Latency.Events == 0 || r.Latency.Took.P50 <= 0 || r.Writer.Transactions == 0 || r.Writer.Ratio <= 0 {
		t.Errorf("latency: %+v, writer: %+v", r.Latency, r.Writer)
	}
	if len(r.Limits) != 3 {
		t.Errorf("limits: %+v", r.Limits)
	}
	if left := w.traces(t); len(left) > 0 {
		t.Errorf("the run has left %q", left)
	}
	if rows := w.texts(t, "SELECT topic FROM outbox_event WHERE published_at IS NULL"); len(rows) != 1 {
		t.Errorf("the table of the database has %q", rows)
	}
}

func TestARunThatDeletesWorksInADatabaseWithoutTheSchemaOutbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Empty)
	c := w.config()
	c.Settle = postgres.Delete
	b := w.bench(t, c)
	if p := w.plan(t, b); !p.StateSchema {
		t.Errorf("plan: %+v", p)
	}
	r, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := w.traces(t); len(left) > 0 || !r.StateSchema {
		t.Errorf("the run has left %q, and says of the schema outbox that it made it: %t", left, r.StateSchema)
	}
}

// Whatever somebody does with the schema outbox while the bench runs, it stays with all that is in it or needs it.
func TestASchemaOutboxThatTheBenchHasMadeStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Empty)
	c := w.config()
	c.step = func(point string) {
		if point == "topic" {
			w.db.Exec(t, "CREATE TABLE outbox.mine AS SELECT 'a row' AS text; CREATE SCHEMA app; CREATE VIEW app.v AS SELECT * FROM outbox.migration")
		}
	}
	b := w.bench(t, c)
	w.plan(t, b)
	if _, err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.texts(t, "SELECT text FROM outbox.mine, app.v WHERE version = 1"); len(got) != 1 {
		t.Errorf("what somebody has made: %q", got)
	}
	if left := w.traces(t); len(left) > 0 {
		t.Errorf("the run has left %q", left)
	}
}

// What others have put into the scratch schema, or made of its tables, stays and is named; the rest goes.
func TestWhatIsNotTheBenchsOwnInItsSchemaStays(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string][2]string{
		"CREATE TABLE %s.mine AS SELECT 'a row' AS text":           {"SELECT text FROM %s.mine", "mine depends on schema outbox_bench_"},
		"CREATE VIEW public.v AS SELECT customer FROM %s.business": {"SELECT 'there' FROM pg_class WHERE relname = 'v'", "view v depends on table outbox_bench_"},
	} {
		w := newWorld(t)
		c := w.config()
		var schema string
		c.step = func(point string) {
			if point == "topic" {
				w.db.Exec(t, strings.ReplaceAll(statement, "%s", schema))
			}
		}
		b := w.bench(t, c)
		schema = w.plan(t, b).Schema
		_, err := b.Run(t.Context())
		var removal *RemovalError
		if !errors.As(err, &removal) {
			t.Errorf("%s: %v", statement, err)
			continue
		}
		contains(t, err.Error(), want[1], Removal(schema))
		if got := w.texts(t, strings.ReplaceAll(want[0], "%s", schema)); len(got) != 1 {
			t.Errorf("%s: there is %q", statement, got)
		}
		if left := w.traces(t); len(left) != 1 || left[0] != schema {
			t.Errorf("%s: left %q", statement, left)
		}
	}
}

func TestAnInterruptedRunLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"schema", "tables", "topic", "live"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pgtest.Empty)
			ctx, interrupt := context.WithCancel(t.Context())
			c := w.config()
			c.step = func(point string) {
				if point == at {
					interrupt()
				}
			}
			b := w.bench(t, c)
			w.plan(t, b)
			if _, err := b.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("error: %v", err)
			}
			if left := w.traces(t); len(left) > 0 {
				t.Errorf("the run has left %q", left)
			}
		})
	}
}

func TestAFailedRunLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, topic := range req.(*kmsg.CreateTopicsRequest).Topics {
			refused := kmsg.NewCreateTopicsResponseTopic()
			refused.Topic, refused.ErrorCode = topic.Topic, kerr.TopicAuthorizationFailed.Code
			resp.Topics = append(resp.Topics, refused)
		}
		return resp, nil, true
	})
	w.refuseDeletion(kerr.TopicAuthorizationFailed)
	b := w.bench(t, w.config())
	p := w.plan(t, b)
	_, err := b.Run(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	contains(t, err.Error(), "create topic "+p.Topic, "needs CREATE")
	if text := err.Error(); strings.Contains(text, "delete") || errors.As(err, new(*RemovalError)) {
		t.Errorf("of a topic that was never made it says %s", text)
	}
	if left := w.traces(t); len(left) > 0 {
		t.Errorf("the run has left %q", left)
	}
}

// What cannot be removed is named, with what removes it.
func TestWhatCannotBeRemovedIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseDeletion(kerr.TopicDeletionDisabled)
	b := w.bench(t, w.config())
	p := w.plan(t, b)
	r, err := b.Run(t.Context())
	var removal *RemovalError
	if !errors.As(err, &removal) || len(r.Limits) == 0 {
		t.Fatalf("error %v, report %+v", err, r)
	}
	contains(t, err.Error(), "delete.topic.enable", "kafka-topics.sh --delete --topic "+p.Topic)
	if left := w.traces(t); len(left) != 1 || left[0] != p.Topic {
		t.Errorf("left: %q", left)
	}
}

// A migration is the owner's affair.
func TestASchemaOutboxOfAnotherVersionIsNotTouched(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{
		"DELETE FROM outbox.migration WHERE version > 10":                                           "run outbox migrate up",
		"INSERT INTO outbox.migration (version, name, checksum) VALUES (9999, 'of the future', '')": "newer than this program",
	} {
		w := newWorld(t)
		w.db.Exec(t, change)
		_, err := w.bench(t, w.config()).Plan(t.Context())
		if err == nil {
			t.Errorf("%s: no error", change)
			continue
		}
		contains(t, err.Error(), want)
	}
}

// A cluster that acknowledges nothing any more ends the run by itself, and keeps the database from nothing.
func TestADrainThatStandsStillEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.config()
	c.stall = time.Second
	c.Progress = func(text string) {
		if text == "draining it" {
			w.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				w.cluster.KeepControl()
				return nil, errors.New("no answer"), true
			})
		}
	}
	b := w.bench(t, c)
	w.plan(t, b)
	_, err := b.Run(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	contains(t, err.Error(), "nothing moved for 1s: 0 of 300 events are published")
	if left := w.traces(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Brokers that hang while the topic is deleted keep nothing of the database from being removed: that has been done before.
func TestTheDatabaseIsClearedBeforeKafkaIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.bench(t, w.config())
	schema := w.plan(t, b).Schema
	var asked, there atomic.Bool
	w.cluster.ControlKey(int16(kmsg.DeleteTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		asked.Store(true)
		var schemas int
		err := w.pool.QueryRow(context.WithoutCancel(t.Context()), "SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema).Scan(&schemas)
		there.Store(err != nil || schemas > 0)
		return nil, nil, false //nolint:nilerr // an error counts as a schema that is there
	})
	if _, err := b.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !asked.Load() || there.Load() {
		t.Errorf("asked to delete the topic: %t, with the schema there: %t", asked.Load(), there.Load())
	}
}
