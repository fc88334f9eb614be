package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/internal/pg"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/relay"
)

// encodings are those of a test's database: what its partition keys are made of, in the database's bytes, and what they are to be in Kafka. In
// SQL_ASCII a text is whatever bytes somebody has written.
var encodings = map[string][][2]string{
	"UTF8":      {{"order", "order"}, {"caf\xc3\xa9", "café"}, {"\xd0\xb6", "ж"}},
	"LATIN1":    {{"order", "order"}, {"caf\xe9", "café"}, {"\xff\x80", "ÿ\u0080"}},
	"SQL_ASCII": {{"order", "order"}, {"caf\xc3\xa9", "café"}, {"caf\xe9", "caf\xe9"}, {"\xff\x80", "\xff\x80"}},
}

// insertBytes writes n events of keys that are bytes in the database's encoding, each followed by a number, and returns what the keys are in Kafka.
func insertBytes(t *testing.T, db *pgxpool.Pool, encoding string, n int) []string {
	t.Helper()
	var want []string
	for _, key := range encodings[encoding] {
		exec(t, db, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 't', convert_from($1, getdatabaseencoding()) || i FROM generate_series(1, $2::integer) i`, []byte(key[0]), n)
		for i := range n {
			want = append(want, fmt.Sprint(key[1], i+1))
		}
	}
	slices.Sort(want)
	return want
}

// handedOut starts a source with some lanes and returns the events that it hands out.
func handedOut(t *testing.T, s *Source, lanes []int32) (events []*relay.Event) {
	t.Helper()
	if err := s.Start(t.Context(), holding{}, lanes); err != nil {
		t.Fatal(err)
	}
	for {
		batch, err := s.Read(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, batch.Events...)
		if len(batch.Events) == 0 && !batch.More && !batch.Walking {
			return events
		}
	}
}

// asUTF8 returns a pool as the commands have it.
func asUTF8(t *testing.T, db *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	return reconfigured(t, db, func(c *pgxpool.Config) { c.AfterConnect = pg.AsUTF8 })
}

func keysOf(events []*relay.Event) []string {
	var keys []string
	for _, e := range events {
		keys = append(keys, e.PartitionKey)
	}
	slices.Sort(keys)
	return keys
}

func TestInAnyEncodingEachEventIsOfExactlyOneReader(t *testing.T) {
	t.Parallel()
	for encoding := range encodings {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, pgtest.Encoded(encoding))
			one, two := openSource(t, db, Config{}), openSource(t, db, Config{})
			want := insertBytes(t, db, encoding, 10)
			a, b := handedOut(t, one, allLanes[:4]), handedOut(t, two, allLanes[4:])
			if got := keysOf(slices.Concat(a, b)); !slices.Equal(got, want) {
				t.Errorf("handed out %q, want %q", got, want)
			}
			if len(a) == 0 || len(b) == 0 {
				t.Errorf("%d and %d events: want some of each", len(a), len(b))
			}
			for reader, events := range [][]*relay.Event{a, b} {
				for _, e := range events {
					if lane := relay.Lane(e.PartitionKey, 8); int(lane)/4 != reader {
						t.Errorf("%q of lane %d came from the reader of the other half", e.PartitionKey, lane)
					}
				}
			}
		})
	}
}

func TestInAnyEncodingAParkedKeyWaitsAndGoesOn(t *testing.T) {
	t.Parallel()
	for encoding := range encodings {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, pgtest.Encoded(encoding))
			s := openSource(t, db, Config{})
			keys := insertBytes(t, db, encoding, 1)
			mine := claim(t, s, owner("a"))
			for _, e := range handedOut(t, s, allLanes) {
				p := parked(e.Key(), e.Ref())
				p.Reason += " … жé\xff"
				if err := parkOne(t.Context(), s, mine, p); err != nil {
					t.Fatalf("park %q: %v", e.PartitionKey, err)
				}
			}
			if left := keysOf(handedOut(t, s, allLanes)); len(left) > 0 {
				t.Errorf("%q are handed out, and parked", left)
			}
			found, err := s.ParkedKeys(t.Context(), allLanes)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range found {
				names = append(names, p.PartitionKey)
			}
			slices.Sort(names)
			if !slices.Equal(names, keys) {
				t.Errorf("parked %q, want %q", names, keys)
			}
			operator := newOperator(t, asUTF8(t, db))
			for _, p := range found {
				if _, err := operator.Request(t.Context(), VerbUnpark, p.Key, "ann", ""); err != nil {
					t.Errorf("request for %q: %v", p.PartitionKey, err)
				}
			}
			done, err := s.Requests(t.Context(), mine, always)
			if err != nil || len(done.Released) != len(keys) {
				t.Errorf("released %q, %v; want all of %q", done.Released, err, keys)
			}
			if again := keysOf(handedOut(t, s, allLanes)); !slices.Equal(again, keys) {
				t.Errorf("handed out when unparked: %q, want %q", again, keys)
			}
		})
	}
}

func TestAnEncodingWithoutUTF8ForAllIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := newSource(t, newDatabase(t, pgtest.Encoded("WIN1251")), Config{})
	info, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Warnings) != 1 || !strings.Contains(info.Warnings[0], "WIN1251") {
		t.Errorf("warnings %q, want one of WIN1251", info.Warnings)
	}
}

// In these encodings no text can have the bytes of UTF-8, from which the relay computes lanes.
func TestADatabaseThatCannotShareLanesHasOne(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, pgtest.Encoded("EUC_JP"))
	same(t, "lanes", layout(t, db), "1 lanes: 0@0")
	exec(t, db, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES (gen_random_uuid(), 'Order', '1', 'order.placed.v1', '{}', 't', convert_from('\xe697a5', 'UTF8'))`)
	if got := keysOf(handedOut(t, openSource(t, db, Config{}), []int32{0})); !slices.Equal(got, []string{"日"}) {
		t.Errorf("handed out %q", got)
	}
	if err := newOperator(t, db).SetLanes(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "2 lanes: this database can have no more than one: its encoding is") {
		t.Errorf("set 2 lanes: %v", err)
	}
	exec(t, db, "UPDATE outbox.source SET lanes = 2")
	_, err := newSource(t, db, Config{}).Open(t.Context())
	if !errors.Is(err, relay.ErrConfiguration) || !strings.Contains(err.Error(), "run: outbox lanes set 1 --table") {
		t.Errorf("open: %v", err)
	}
	if err := newOperator(t, db).SetLanes(t.Context(), 1); err != nil {
		t.Errorf("set 1 lane: %v", err)
	}
}
