package competing_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/competing"
	"github.com/outbox-relay/outbox/relay"
)

// A relay that waits for lanes to be free has never worked: nothing of it was interrupted, and its attempts follow each other closely.
func TestAStartThatFailsIsSaidOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`UPDATE outbox.lane SET owner = gen_random_uuid(), epoch = 1, expires_at = clock_timestamp() + interval '1 h'`)
	var log bytes.Buffer
	err := w.relay(competing.Config{Once: true, StartTimeout: 15 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "leases lanes of this table") {
		t.Errorf("Run = %v, want that lanes are leased", err)
	}
	// The time until the lease ends is another one each time it is told.
	said := log.String()
	if strings.Contains(said, "relay interrupted") || strings.Count(said, "cannot start yet") != 1 {
		t.Errorf("the log says %s", said)
	}
}

func TestAnErrorNamesItsSourceOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`ALTER TABLE outbox_event DROP COLUMN payload`)
	err := w.relay(competing.Config{Once: true}).Run(t.Context())
	if err == nil || strings.Count(err.Error(), "source") != 1 || !strings.HasPrefix(err.Error(), "open source: public.outbox_event: ") {
		t.Errorf("Run = %v, want the source named once", err)
	}
}

func TestAMissingTopicThatMustExistIsConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.relay(competing.Config{Once: true, Topics: []string{"nowhere"}}).Run(t.Context())
	if !errors.Is(err, relay.ErrConfiguration) {
		t.Errorf("Run = %v, want relay.ErrConfiguration", err)
	}
}
