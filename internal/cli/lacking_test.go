package cli

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

// newRole makes a role that may connect and nothing more, and returns its name and its URL.
func newRole(t *testing.T, db *pgtest.DB) (name, address string) {
	t.Helper()
	name = "nobody_" + strings.ToLower(rand.Text()[:12])
	db.Exec(t, "CREATE ROLE "+name+" LOGIN PASSWORD 'of-a-test'")
	conn := db.Conn(t)
	t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + name, "DROP ROLE " + name} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "of-a-test")
	return name, u.String()
}

// Every command that connects says which right is missing by one command, with the role in it, that can be pasted.
func TestAMissingRightIsOneCommandAwayForEveryCommand(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role, address := newRole(t, db)
	env := []string{"DATABASE_URL=" + address, "KAFKA_BROKERS=127.0.0.1:1"}
	visit(t, func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "outbox ")
		if cmd.Flags().Lookup("database-url") == nil || name == "demo" || name == "doctor" || name == "relay" || cmd.Parent().Name() == "config" {
			return
		}
		args := append(strings.Fields(name), wholeArgs[name]...)
		if cmd.Flags().Lookup("json") != nil {
			args = append(args, "--json")
			if got := runWith(t, env, args...).object(t); got.Code != "forbidden" || got.ExitCode != exitConfig {
				t.Errorf("outbox %s: %+v", name, got)
			}
			args = args[:len(args)-1]
		}
		got := runWith(t, env, args...)
		command := "outbox migrate grants --table public.outbox_event --role " + role + " --operator"
		if other := map[string]string{"migrate up": "GRANT CREATE ON DATABASE", "migrate status": "outbox doctor says which", "bench": "GRANT CREATE ON DATABASE"}[name]; other != "" {
			command = other
		}
		if got.code != exitConfig || strings.Count(got.errs, command) != 1 || strings.Count(got.errs, "outbox migrate grants") > 1 {
			t.Errorf("outbox %s: %d %s", name, got.code, got.errs)
		}
	})
	got := runWith(t, env, "relay")
	if command := "outbox migrate grants --table public.outbox_event --role " + role; got.code != exitConfig || !strings.Contains(got.errs, command) || strings.Contains(got.errs, "--operator") {
		t.Errorf("outbox relay: %d %s", got.code, got.errs)
	}
	if got := runWith(t, env, "doctor"); got.code != exitFailed || !strings.Contains(got.out, "[rights-missing]") || got.errs != "" {
		t.Errorf("outbox doctor: %+v", got)
	}
}

// A right that is missing deeper down is no raw error either.
func TestARightThatIsMissingForOneTableIsNamed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role, address := newRole(t, db)
	env := []string{"DATABASE_URL=" + address}
	grants := runWith(t, env, "migrate", "grants", "--role", role, "--operator")
	db.Exec(t, grants.out)
	for _, c := range []struct{ table, args string }{
		{"lane", "status"}, {"lane", "lanes list"}, {"relay", "relays"}, {"audit", "audit"}, {"parked_key", "keys list"}, {"pause", "pause topic t"}, {"job", "jobs list"},
	} {
		db.Exec(t, "REVOKE ALL ON outbox."+c.table+" FROM "+role)
		got := runWith(t, env, strings.Fields(c.args)...)
		if got.code != exitConfig || !strings.Contains(got.errs, "permission denied for table "+c.table) || !strings.Contains(got.errs, "--role "+role) && !strings.Contains(got.errs, "outbox doctor says") {
			t.Errorf("outbox %s without outbox.%s: %d %s", c.args, c.table, got.code, got.errs)
		}
		db.Exec(t, grants.out)
	}
}

// A policy that the relay's role may not carry out is said when the relay starts, and not when the first event fails.
func TestARelayWarnsOfAPolicyWithoutTheRightToDelete(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role, address := newRole(t, db)
	env := []string{"DATABASE_URL=" + address, "KAFKA_BROKERS=" + strings.Join(brokersOf(t), ",")}
	db.Exec(t, runWith(t, env, "migrate", "grants", "--role", role).out)
	const warning = "may not delete from public.outbox_event, and a policy moves events"
	for policy, want := range map[string]bool{"park": false, "skip": true, "orders.*=dead-letter": true} {
		got := runWith(t, env, "relay", "--once", "--on-failure", policy)
		if got.code != exitOK || strings.Contains(got.errs, warning) != want || want && !strings.Contains(got.errs, "--role "+role+" --delete") {
			t.Errorf("--on-failure %s: %d %s", policy, got.code, got.errs)
		}
	}
}

func brokersOf(t *testing.T) []string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()
}
