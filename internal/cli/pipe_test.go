package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

// As with: outbox events list | head -1, also in a script that stops at the first failure of a pipe.
func TestAReaderThatHasSeenEnoughIsNoFailure(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
SELECT gen_random_uuid(), 'Order', i::text, 'order.placed.v1', '{}', 'shop.order', i::text FROM generate_series(1, 3) i`)
	run := func(args string) (code int, errs string) {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close()
		reader.Close()
		var stderr bytes.Buffer
		code = Run(t.Context(), strings.Fields(args), strings.NewReader(""), writer, &stderr, []string{"DATABASE_URL=" + db.URL})
		return code, stderr.String()
	}
	for _, args := range []string{
		"events list", "events list --json", "events show 1", "status", "status --json", "keys list", "topics", "relays", "lanes list", "audit", "jobs list", "doctor", "migrate status",
		"migrate print", "migrate grants --role me", "events skip 1 --reason x", "events skip 2 --reason x --json", "events restore --all --yes --json", "version", "help", "pause list",
	} {
		if code, errs := run(args); code != exitOK || errs != "" {
			t.Errorf("outbox %s: %d %q", args, code, errs)
		}
	}
	if code, errs := run("events retry 99 98 --yes --json"); code != exitFailed || errs != "" {
		t.Errorf("what failed fails, read or not: %d %q", code, errs)
	}
}
