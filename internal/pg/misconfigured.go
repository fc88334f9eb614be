package pg

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/relay"
)

// Misconfigured makes an error one that no waiting mends: it is relay.ErrConfiguration.
func Misconfigured(err error) error { return misconfiguration{err} }

type misconfiguration struct{ error }

// Is tells that the error is relay.ErrConfiguration.
func (m misconfiguration) Is(target error) bool { return target == relay.ErrConfiguration }

// Unwrap returns the fault itself.
func (m misconfiguration) Unwrap() error { return m.error }

// refusals are what a server says to a client that it will never let in: no such role or rule, a wrong password, no such database.
var refusals = []string{"28000", "28P01", "3D000"}

// Mark tells a connection that was refused from one that failed, and says what a pooler or a certificate wants.
func Mark(err error) error {
	if secured, found := FindTLSTrouble(err); found {
		err = fmt.Errorf("%w; %s", err, secured.Remedy)
		if secured.Lasting {
			return Misconfigured(err)
		}
		return err
	}
	trouble, found := FindPoolerTrouble(err)
	if found {
		err = fmt.Errorf("%w; %s", err, trouble.Remedy)
	}
	if trouble.Lasting || slices.Contains(refusals, Code(err)) || unknownSetting(err) {
		return Misconfigured(err)
	}
	return err
}

// unknownSetting tells that a setting of the connection string is one that the server does not know: a misspelt sslmode is sent to it as one of its own.
func unknownSetting(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) && Code(err) == "42704"
}
