package pg

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/relay"
)

func TestPoolersRefusalsComeWithTheirRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, text string
		remedy     string
		lasting    bool
	}{
		{"26000", `prepared statement "stmtcache_1" does not exist`, "default_query_exec_mode=exec", true},
		{"42P05", `prepared statement "stmtcache_1" already exists`, "default_query_exec_mode=exec", true},
		{"08P01", "unsupported startup parameter: search_path", "take search_path out of the connection string, or add it to ignore_startup_parameters", true},
		{"08P01", "unsupported startup parameter in options: lock_timeout", "take lock_timeout out", true},
		{"08P01", "transaction blocks not allowed in statement pooling mode", "pool_mode=transaction", true},
		{"08P01", "password authentication failed", "auth_file", true},
		{"08P01", `database "shop" does not exist`, "[databases]", true},
		{"08P01", "no more connections allowed (max_client_conn)", "max_client_conn", false},
		{"08P01", "query_wait_timeout", "default_pool_size", false},
	} {
		err := error(&pgconn.PgError{Severity: "FATAL", Code: c.code, Message: c.text})
		trouble, found := FindPoolerTrouble(fmt.Errorf("claim: %w", err))
		if !found || trouble.Lasting != c.lasting {
			t.Errorf("%s: found %t, lasting %t; want true and %t", c.text, found, trouble.Lasting, c.lasting)
		}
		marked := Mark(err)
		if !strings.Contains(marked.Error(), c.remedy) {
			t.Errorf("%v does not say %q", marked, c.remedy)
		}
		if got := errors.Is(marked, relay.ErrConfiguration); got != c.lasting {
			t.Errorf("%s: is relay.ErrConfiguration: %t, want %t", c.text, got, c.lasting)
		}
	}
}

func TestWhatAServerSaysIsNoPoolersTrouble(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		nil,
		errors.New("prepared statement"),
		&pgconn.PgError{Code: "08P01", Message: "invalid message format"},
		&pgconn.PgError{Code: "42703", Message: `column "x" does not exist`},
	} {
		if trouble, found := FindPoolerTrouble(err); found {
			t.Errorf("%v: found %+v", err, trouble)
		}
	}
}
