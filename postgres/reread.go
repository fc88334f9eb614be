package postgres

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/certfile"
	"github.com/outbox-relay/outbox/internal/connstring"
	"github.com/outbox-relay/outbox/internal/patience"
)

// rereadLimit is how long the files of a connection string may take.
const rereadLimit = 2 * time.Second

// RereadRoots returns a function for BeforeConnect of a pgxpool.Config. The driver reads the file of sslrootcert once, when it parses the connection string, so a
// service that runs for months would refuse a server whose certificate comes from a new authority; this function reads it again for each connection. The
// files of sslcert and sslkey are read again by the driver itself. A file that cannot be read just now, or not whole, such as one that is being replaced, or that does not
// answer within two seconds, counts as unchanged.
//
// connString is what the pool was made from. The function is of no effect where no sslrootcert is named; it may be called from any goroutine.
func RereadRoots(connString string) func(context.Context, *pgx.ConnConfig) error {
	// What cannot be parsed now could be when the pool was made.
	again := patience.NewAgain(nil, rereadLimit, func() (*pgconn.Config, error) {
		if err := checkRoots(connString); err != nil {
			return nil, err
		}
		return pgconn.ParseConfig(connString)
	})
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

// maxRoots is more than any bundle of authorities has.
const maxRoots = 8 << 20

// checkRoots refuses a file of authorities that is cut: the driver takes what stands in front of the cut for all.
func checkRoots(connString string) error {
	path, given := connstring.Parameter(connString, "sslrootcert")
	if !given {
		path = os.Getenv("PGSSLROOTCERT")
	}
	if home, err := os.UserHomeDir(); path == "" && err == nil {
		path = filepath.Join(home, ".postgresql", "root.crt")
	}
	content, err := patience.RegularFile(path, "sslrootcert", maxRoots)
	if err != nil {
		return nil //nolint:nilerr // the driver says so where it needs it; system is no file
	}
	return certfile.Check(content)
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
