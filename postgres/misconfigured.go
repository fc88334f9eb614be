package postgres

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/relay"
)

// misconfigured is what no waiting mends. It is relay.ErrConfiguration.
type misconfigured struct{ error }

// Is tells that the error is relay.ErrConfiguration.
func (m misconfigured) Is(target error) bool { return target == relay.ErrConfiguration }

// Unwrap returns the fault itself.
func (m misconfigured) Unwrap() error { return m.error }

// refusals are what a server says to a client that it will never let in: no such role or rule, a wrong password, no such database.
var refusals = []string{"28000", "28P01", "3D000"}

// mark tells a connection that was refused from one that failed, and says what a pooler or a certificate wants.
func mark(err error) error {
	if secured, found := FindTLSTrouble(err); found {
		err = fmt.Errorf("%w; %s", err, secured.Remedy)
		if secured.Lasting {
			return misconfigured{err}
		}
		return err
	}
	trouble, found := FindPoolerTrouble(err)
	if found {
		err = fmt.Errorf("%w; %s", err, trouble.Remedy)
	}
	if trouble.Lasting || slices.Contains(refusals, code(err)) || unknownSetting(err) {
		return misconfigured{err}
	}
	return err
}

// unknownSetting tells that a setting of the connection string is one that the server does not know: a misspelt sslmode is sent to it as one of its own.
func unknownSetting(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) && code(err) == "42704"
}
