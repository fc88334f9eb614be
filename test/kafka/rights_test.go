//go:build integration

package kafka_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

// as returns the fixture as seen by a new role that has exactly the rights that the command prints.
func (f *fixture) as(t *testing.T, grants ...string) *fixture {
	t.Helper()
	role := "r_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	f.db.Exec(t, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'of-a-test'", role))
	t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := f.pool.Exec(context.Background(), sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})
	sql, errs, code := f.outbox(t, append([]string{"migrate", "grants", "--role", role}, grants...)...)
	if code != 0 {
		t.Fatalf("print grants: %d %s", code, errs)
	}
	f.db.Exec(t, sql)
	u, err := url.Parse(f.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "of-a-test")
	return &fixture{db: &pgtest.DB{URL: u.String()}, pool: f.pool, brokers: f.brokers}
}

func TestTheRelayAndItsOperatorNeedTheRightsThatArePrintedAndNoMore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topic := f.topic(t, name("rights"), 3, "max.message.bytes", "5000")
	f.insert(t, topic, "ok", `{}`)
	f.insert(t, topic, "big", fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("x", 6000)))
	f.insert(t, topic, "big", `{"follower":true}`)
	stdout, stderr, code := f.as(t).outbox(t, "relay", "--once")
	if code != 1 || !strings.Contains(stdout, "published 1 event") || !strings.Contains(stdout, "parked") {
		t.Fatalf("relay --once ended with %d\n%s%s", code, stdout, stderr)
	}
	operator := f.as(t, "--operator", "--delete")
	for _, args := range [][]string{
		{"status"},
		{"keys", "list"},
		{"keys", "skip", "--topic", topic, "--key", "big", "--reason", "too large"},
	} {
		if stdout, stderr, code := operator.outbox(t, args...); code != 0 {
			t.Errorf("outbox %v ended with %d\n%s%s", args, code, stdout, stderr)
		}
	}
	stdout, stderr, code = f.as(t, "--delete").outbox(t, "relay", "--once", "--settle", "delete")
	if code != 0 || !strings.Contains(stdout, "published 1 event") {
		t.Errorf("relay --once --settle delete ended with %d\n%s%s", code, stdout, stderr)
	}
}
