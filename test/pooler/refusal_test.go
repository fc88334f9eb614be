//go:build integration

package pooler_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/devbouncer"
	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

func wantRemedy(t *testing.T, err error, want string) {
	t.Helper()
	trouble, found := postgres.FindPoolerTrouble(err)
	if !found || !strings.Contains(trouble.Remedy, want) {
		t.Errorf("%v: remedy %q, want one that says %s", err, trouble.Remedy, want)
	}
}

// openError is why a source behind the bouncer cannot be opened.
func openError(t *testing.T, url string) error {
	t.Helper()
	s, err := postgres.New(newPool(t, url), postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	_, err = s.Open(t.Context())
	return err
}

func TestStatementModeIsRefusedWithTheSetting(t *testing.T) {
	t.Parallel()
	for _, version := range []string{old, recent} {
		f := newFixture(t, devbouncer.Options{Version: version, Params: map[string]string{"pool_mode": "statement"}})
		err := openError(t, f.url())
		if !errors.Is(err, relay.ErrConfiguration) || !strings.Contains(err.Error(), "pool_mode=transaction") {
			t.Errorf("%s: Open = %v, want a configuration error that names pool_mode=transaction", version, err)
		}
	}
}

func TestSessionModeNeedsAConnectionForEachSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, devbouncer.Options{PoolSize: 2, Params: map[string]string{"pool_mode": "session"}})
	err := openError(t, f.url())
	if err == nil || !strings.Contains(err.Error(), "pool_mode=transaction") || !strings.Contains(err.Error(), "serves 2 of the relay's 5 connections") {
		t.Errorf("Open = %v, want an error that names pool_mode=transaction", err)
	}
	g := newFixture(t, devbouncer.Options{PoolSize: 6, Params: map[string]string{"pool_mode": "session"}})
	g.start(t, g.url(), relay.Config{})
	g.insert(t, topic, "order-1")
	g.awaitAllPublished(t)
}

func TestASettingOfTheUrlThatThePoolerRefusesIsNamed(t *testing.T) {
	t.Parallel()
	for _, version := range []string{old, recent} {
		f := newFixture(t, devbouncer.Options{Version: version})
		url := f.url() + "&idle_session_timeout=1000"
		const want = "take idle_session_timeout out of the connection string, or add it to ignore_startup_parameters"
		if err := openError(t, url); !errors.Is(err, relay.ErrConfiguration) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Open = %v, want a configuration error that says %s", version, err, want)
		}
		for _, args := range [][]string{{"status"}, {"relay"}, {"migrate", "status"}} {
			_, said, code := f.outboxAt(t, url, args...)
			if code != 78 || !strings.Contains(said, want) {
				t.Errorf("%s: outbox %s ended with %d and %q, want 78 and %q", version, args, code, said, want)
			}
		}
		g := newFixture(t, devbouncer.Options{Version: version, Params: map[string]string{"ignore_startup_parameters": "idle_session_timeout"}})
		if err := openError(t, g.url()+"&idle_session_timeout=1000"); err != nil {
			t.Errorf("%s: Open with the setting ignored: %v", version, err)
		}
	}
}

func TestAUserAndADatabaseThatThePoolerDoesNotKnowAreNamed(t *testing.T) {
	t.Parallel()
	for _, version := range []string{old, recent} {
		f := newFixture(t, devbouncer.Options{Version: version})
		stranger := strings.Replace(f.url(), "://", "://nobody:x@", 1)
		stranger = stranger[:strings.Index(stranger, "@")+1] + stranger[strings.LastIndex(stranger, "@")+1:]
		for url, want := range map[string]string{stranger: "auth_file", f.URL("never_created"): "never_created"} {
			_, said, code := f.outboxAt(t, url, "status")
			if code != 78 || !strings.Contains(said, want) {
				t.Errorf("%s: outbox status ended with %d and %q, want 78 and %q", version, code, said, want)
			}
		}
	}
}
