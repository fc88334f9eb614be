package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/operate"
)

// lettersOn makes letters of a partition, of given offsets, a millisecond apart.
func lettersOn(topic string, partition int32, offsets ...int64) (letters []*operate.LetterRecord) {
	for _, offset := range offsets {
		l := &operate.LetterRecord{}
		l.LetterRef, l.At = operate.LetterRef{Topic: topic, Partition: partition, Offset: offset}, time.UnixMilli(1_893_456_000_123+offset)
		letters = append(letters, l)
	}
	return letters
}

func TestWhatWasSentBackIsRemembered(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	known := func(letters []*operate.LetterRecord) (offsets []int64) {
		t.Helper()
		found, err := d.store.RedrivenOf(t.Context(), letters)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range letters {
			if r, is := found[l.LetterRef]; is {
				if r.By != "ann" && r.By != "bob" || r.At.IsZero() || r.At.Location() != time.UTC {
					t.Errorf("%s: %+v", l.LetterRef, r)
				}
				offsets = append(offsets, l.Offset)
			}
		}
		return offsets
	}
	mark := func(by string, letters ...*operate.LetterRecord) {
		t.Helper()
		if err := d.store.MarkRedriven(t.Context(), letters, by); err != nil {
			t.Fatal(err)
		}
	}
	if got := known(nil); got != nil {
		t.Errorf("of none: %v", got)
	}
	mark("nobody")
	mark("ann", lettersOn("a-dlt", 0, 1, 2, 5)...)
	mark("ann", lettersOn("a-dlt", 1, 3)...)
	mark("bob", lettersOn("a-dlt", 0, 5, 6)...)
	if got := known(lettersOn("a-dlt", 0, 0, 1, 2, 3, 4, 5, 6, 7)); len(got) != 4 || got[0] != 1 || got[3] != 6 {
		t.Errorf("partition 0: %v", got)
	}
	if got := known(append(lettersOn("b-dlt", 0, 1), lettersOn("a-dlt", 2, 3)...)); got != nil {
		t.Errorf("elsewhere: %v", got)
	}
	// The topic was made anew: another record has the offset.
	anew := lettersOn("a-dlt", 0, 1)
	anew[0].At = anew[0].At.Add(time.Millisecond)
	if got := known(anew); got != nil {
		t.Errorf("of a topic that was made anew: %v", got)
	}
	mark("ann", anew...)
	if got := known(anew); len(got) != 1 {
		t.Errorf("when it was sent back, too: %v", got)
	}
	if err := d.store.ForgetRedriven(t.Context(), "a-dlt", 0, 6); err != nil {
		t.Fatal(err)
	}
	if got := known(append(lettersOn("a-dlt", 0, 1, 2, 5, 6), lettersOn("a-dlt", 1, 3)...)); len(got) != 2 || got[0] != 6 {
		t.Errorf("what is left: %v", got)
	}
	mark("ann\xff\x00", lettersOn("c-dlt", 0, 1)...)
}

func TestTheInboxTellsWhatAConsumerHasHandled(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`INSERT INTO outbox.inbox (consumer, event_id) VALUES ('billing', 'e-1'), ('billing', 'e-2'), ('ledger', 'e-3')`)
	found, err := d.store.Handled(t.Context(), "billing", []string{"e-1", "e-3", "e-4", "a\x00b", "\xff"})
	if _, is := found["e-1"]; err != nil || len(found) != 1 || !is {
		t.Errorf("%v, %v", found, err)
	}
}

// Looking up a page costs a page, however much is remembered: also where nothing has counted the rows.
func TestLookingForWhatWasSentBackGoesOverTheKey(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`INSERT INTO outbox.redriven (topic, partition, record_offset, record_at, by) SELECT 'a-dlt', 0, g, to_timestamp((1893456000123 + g) / 1000.0), 'ann' FROM generate_series(1, 100000) g`)
	var offsets []int64
	for i := range int64(500) {
		offsets = append(offsets, 1+200*i)
	}
	found, err := d.store.RedrivenOf(t.Context(), lettersOn("a-dlt", 0, offsets...))
	if err != nil || len(found) != 500 {
		t.Fatalf("%d found, %v", len(found), err)
	}
	err = d.store.letters(t.Context(), "look at the plan", func(ctx context.Context, tx pgx.Tx) error {
		topics, partitions, offsets, times := letterLists(lettersOn("a-dlt", 0, offsets...))
		rows, err := tx.Query(ctx, "EXPLAIN "+redrivenSQL, topics, partitions, offsets, times)
		if err != nil {
			return err
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if text := strings.Join(plan, "\n"); err == nil && !strings.Contains(text, "Index Scan using redriven_pkey") {
			t.Errorf("the plan is\n%s", text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestALettersEventIsKeptWhileItIsAmongTheDeadOnes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	letters := lettersOn("dead.order", 0, 1, 2, 3, 4, 5)
	for i, l := range letters {
		l.Form, l.EventID = operate.LetterOfRelay, fmt.Sprintf("00000000-0000-4000-8000-00000000000%d", i+1)
	}
	letters[3].Form = operate.LetterOfConsumer
	letters[4].EventID = "no uuid"
	d.exec(`INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, died_by, letter_topic, letter_partition, letter_offset)
SELECT s.id, n, ('00000000-0000-4000-8000-00000000000' || n)::uuid, 'shop.order', 'k', 0, '{}', 'X', 'x', 'relay a', 'dead.order', 0, CASE WHEN n = 2 THEN 99 ELSE n END
FROM outbox.source s, generate_series(1, 4) n WHERE n <> 3`)
	found, err := d.store.KeptOf(t.Context(), letters)
	if _, first := found[letters[0].LetterRef]; err != nil || len(found) != 1 || !first {
		t.Errorf("kept are %v, %v, want the first alone: the second is elsewhere, the third gone, the others none of the relay's", found, err)
	}
}
