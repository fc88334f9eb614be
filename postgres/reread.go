package postgres

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/patience"
)

// rereadLimit is how long the files of a connection string may take.
const rereadLimit = 2 * time.Second

// RereadRoots returns a function for BeforeConnect of a pgxpool.Config. The driver reads the file of sslrootcert once, when it parses the connection string, so a
// service that runs for months would refuse a server whose certificate comes from a new authority; this function reads it again for each connection. The
// files of sslcert and sslkey are read again by the driver itself. A file that cannot be read just now, such as one that is being replaced, or that does not answer within two
// seconds, counts as unchanged.
//
// connString is what the pool was made from. The function is of no effect where no sslrootcert is named; it may be called from any goroutine.
func RereadRoots(connString string) func(context.Context, *pgx.ConnConfig) error {
	// What cannot be parsed now could be when the pool was made.
	again := patience.NewAgain(nil, rereadLimit, func() (*pgconn.Config, error) { return pgconn.ParseConfig(connString) })
	return func(ctx context.Context, cc *pgx.ConnConfig) error {
		if fresh := again.Read(ctx); fresh != nil && len(fresh.Fallbacks) == len(cc.Fallbacks) {
			takeRoots(cc.TLSConfig, fresh.TLSConfig)
			for i, f := range fresh.Fallbacks {
				takeRoots(cc.Fallbacks[i].TLSConfig, f.TLSConfig)
			}
		}
		return nil
	}
}

// takeRoots changes a configuration that no connection uses yet: BeforeConnect is given a copy. By VerifyPeerCertificate, which knows its own roots, the driver
// does without the host name, as sslmode=verify-ca wants it.
func takeRoots(to, from *tls.Config) {
	if to == nil || from == nil || from.RootCAs == nil {
		return
	}
	to.RootCAs, to.ClientCAs = from.RootCAs, from.ClientCAs
	to.VerifyPeerCertificate = from.VerifyPeerCertificate //nolint:gosec // the driver resumes no sessions, which would not be verified anew
}
