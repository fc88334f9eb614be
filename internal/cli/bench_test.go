package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/benchmark"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// smallBench is as little as it can be.
var smallBench = []string{"bench", "--events", "100", "--rate", "20", "--duration", "1s", "--partitions", "2"}

func TestBenchSaysWhatItMakesBeforeItMakesAnything(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty)
	env := []string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + strings.Join(brokersOf(t), ",")}
	got := runWith(t, env, smallBench...)
	if got.code != exitUnconfirmed || got.out != "" {
		t.Errorf("%d %s", got.code, got.out)
	}
	for _, want := range []string{"schema  outbox_bench_", "outbox, which this database lacks", "topic   outbox-bench-", "2 partitions", "there is no terminal to ask on: --yes agrees", db.Name} {
		if !strings.Contains(got.errs, want) {
			t.Errorf("%q is not in %s", want, got.errs)
		}
	}
	if strings.Contains(got.errs, "postgres://") {
		t.Errorf("the URL is shown: %s", got.errs)
	}
	got = runWith(t, env, append(smallBench, "--json")...)
	if object := got.object(t); got.code != exitUnconfirmed || object.Plan == nil {
		t.Errorf("%d %+v", got.code, object)
	}
	var schemas int
	if err := db.Conn(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'outbox%'").Scan(&schemas); err != nil || schemas != 0 {
		t.Errorf("%d schemas: %v", schemas, err)
	}
}

func TestBenchPrintsItsFiguresAndWhatLimitsThem(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := []string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + strings.Join(brokersOf(t), ",")}
	got := runWith(t, env, append(smallBench, "--yes")...)
	if got.code != exitOK {
		t.Fatalf("%d %s", got.code, got.errs)
	}
	for _, want := range []string{"drain ", "events/s", "latency ", "writer ", "acks=all", "limit  ", "2 partitions"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is not in %s", want, got.out)
		}
	}
	got = runWith(t, env, append(smallBench, "--yes", "--json", "--settle", "delete")...)
	var drain benchmark.Drain
	if got.code != exitOK || got.errs != "" {
		t.Fatalf("%d %s", got.code, got.errs)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(got.out), &raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw["drain"], &drain); err != nil || drain.Events != 100 || drain.PerSecond <= 0 {
		t.Errorf("drain: %v %s", err, raw["drain"])
	}
	if !strings.Contains(string(raw["latency"]), `"p99_ms"`) {
		t.Errorf("latency: %s", raw["latency"])
	}
}

func TestBenchSaysThatItWasInterrupted(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ctx, interrupt := context.WithCancel(t.Context())
	out := &interrupting{at: "draining", interrupt: interrupt}
	env := []string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + strings.Join(brokersOf(t), ",")}
	code := Run(ctx, append(smallBench, "--yes"), strings.NewReader(""), &bytes.Buffer{}, out, env)
	if code != exitFailed || !strings.Contains(out.String(), "interrupted: what was made is removed again") {
		t.Errorf("%d %s", code, out)
	}
	var schemas int
	if err := db.Conn(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'outbox_bench%'").Scan(&schemas); err != nil || schemas != 0 {
		t.Errorf("%d schemas: %v", schemas, err)
	}
}

// interrupting is a terminal at which somebody presses Ctrl-C when a word comes.
type interrupting struct {
	bytes.Buffer
	at        string
	interrupt func()
}

// Write is of io.Writer.
func (i *interrupting) Write(b []byte) (int, error) {
	if strings.Contains(string(b), i.at) {
		i.interrupt()
	}
	return i.Buffer.Write(b)
}

// A role that may create nothing hears so before the brokers are asked, and one that does not own the schema outbox before anything is made.
func TestBenchNamesTheRightsThatItLacks(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role, address := newRole(t, db)
	env := []string{"DATABASE_URL=" + address, "KAFKA_BROKERS=127.0.0.1:1"}
	if got := runWith(t, env, "bench", "--yes"); got.code != exitConfig || !strings.Contains(got.errs, "GRANT CREATE ON DATABASE "+db.Name) && !strings.Contains(got.errs, "GRANT CREATE ON DATABASE \""+db.Name) || !strings.Contains(got.errs, role) {
		t.Errorf("%d %s", got.code, got.errs)
	}
	db.Exec(t, "GRANT CREATE ON DATABASE "+db.Name+" TO "+role)
	if got := runWith(t, env, "bench", "--yes"); got.code != exitConfig || !strings.Contains(got.errs, "may not write into the tables of the schema outbox") {
		t.Errorf("%d %s", got.code, got.errs)
	}
}
