package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/outbox-relay/outbox/internal/devaccount"
	"github.com/outbox-relay/outbox/internal/devport"
	"github.com/outbox-relay/outbox/internal/devtemp"
)

// startLimit is how long a server may take to answer when the context sets no nearer deadline; crash recovery is included.
const startLimit = 90 * time.Second

// Options say which server to run, and how. The zero value runs any version, fast and without safety against a crash of the machine.
type Options struct {
	// Version is the major version wanted, such as "15" or "18". "" takes the first that is found on the machine, whatever its version
	// (14 at least), and fetches the newest when there is none.
	Version string
	// Durable makes commits reach the disk (fsync and full_page_writes on), as benchmarks want it. Without it a crash of the server loses
	// nothing either, only one of the machine does.
	Durable bool
	// Params are configuration parameters, by name, that override the defaults of this package, such as "max_connections".
	Params map[string]string
	// TLS, when not nil, lets the server talk TLS; clients choose whether they do. [Server.SetTLS] changes it.
	TLS *TLS
	// Rules are the lines of pg_hba.conf for everybody but the superuser. Nil: whoever comes from this machine is let in without a password.
	Rules []string
	// Dir is the folder of the server; data that a former server left there is used again, and Cleanup leaves it. "" makes a new
	// one that goes away with the server: under the system's temporary folder, or in memory where there is room, unless the server is durable.
	Dir string
	// Log gets what the server logs, besides the file server.log in its folder; nil: only the file.
	Log io.Writer
}

// temp is where a throw-away folder is made. Who wants commits to reach the disk wants a disk.
func (o Options) temp() string {
	if o.Durable {
		return os.TempDir()
	}
	return devtemp.Folder()
}

// Start runs a server and returns when it answers. Its errors say what to install or to set when there is no server to be had.
func Start(ctx context.Context, o Options) (*Server, error) {
	bin, err := findBinaries(o.Version)
	if err != nil {
		return nil, fmt.Errorf("find PostgreSQL: %w", err)
	}
	acc, err := devaccount.Unprivileged("PostgreSQL")
	if err != nil {
		return nil, fmt.Errorf("choose the user of PostgreSQL: %w", err)
	}
	f, err := openFolder(o.Dir, o.temp(), acc)
	if err != nil {
		return nil, fmt.Errorf("make the folder of PostgreSQL: %w", err)
	}
	s := &Server{options: o, bin: bin, account: acc, folder: f}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(err, s.Cleanup())
	}
	return s, nil
}

// begin makes the database cluster if there is none, and starts it on a port of its own.
func (s *Server) begin(ctx context.Context) (err error) {
	if err := s.initialize(ctx); err != nil {
		return err
	}
	if err := s.secure(); err != nil {
		return err
	}
	if s.watchdog, err = startWatchdog(s.folder); err != nil {
		return fmt.Errorf("start the watchdog of PostgreSQL: %w", err)
	}
	const tries = 5
	for range tries {
		if s.port, err = devport.One(); err != nil {
			return fmt.Errorf("find a free port: %w", err)
		}
		if err = s.Start(ctx); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}
