package cli

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/outbox-relay/outbox/internal/devpg"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestAPasswordFileOfTheDriverIsReadAgainForEachConnection(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, devpg.Options{Rules: []string{"host all rotating 127.0.0.1/32 scram-sha-256"}})
	db := &pgtest.DB{URL: server.URL("postgres")}
	db.Exec(t, "CREATE ROLE rotating LOGIN")
	passfile := filepath.Join(t.TempDir(), ".pgpass")
	rotate := func(password string) {
		db.Exec(t, "ALTER ROLE rotating PASSWORD '"+password+"'")
		if err := os.WriteFile(passfile, []byte("*:*:*:rotating:"+password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate("first")
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User("rotating")
	u.RawQuery = url.Values{"passfile": {passfile}, "sslmode": {"disable"}}.Encode()
	cfg, err := target{url: u.String(), table: "outbox_event"}.parse(t.Context(), environment{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := newPool(t.Context(), cfg, "outbox-test")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, password := range []string{"first", "second"} {
		rotate(password)
		pool.Reset()
		if err := pool.Ping(t.Context()); err != nil {
			t.Errorf("with the %s password: %v", password, err)
		}
	}
	// A file that is being replaced is away for a moment.
	if err := os.Remove(passfile); err != nil {
		t.Fatal(err)
	}
	cc := pool.Config().ConnConfig
	cc.Password = "second"
	if err := cfg.BeforeConnect(t.Context(), cc); err != nil || cc.Password != "second" {
		t.Errorf("with the file away: %q, %v", cc.Password, err)
	}
}

// What is told by other means is not taken from the driver's file.
func TestAPasswordThatIsToldWinsOverAPasswordFile(t *testing.T) {
	t.Parallel()
	passfile := filepath.Join(t.TempDir(), ".pgpass")
	if err := os.WriteFile(passfile, []byte("*:*:*:*:of-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := "host=h user=u passfile=" + passfile
	for want, given := range map[string]target{
		"of-the-file": {url: address},
		"of-the-url":  {url: address + " password=of-the-url"},
		"told":        {url: address, password: "told"},
	} {
		given.table = "outbox_event"
		cfg, err := given.parse(t.Context(), environment{})
		if err != nil {
			t.Fatal(err)
		}
		cc := cfg.ConnConfig.Copy()
		if err := cfg.BeforeConnect(t.Context(), cc); err != nil || cc.Password != want {
			t.Errorf("the password is %q, want %q: %v", cc.Password, want, err)
		}
	}
}
