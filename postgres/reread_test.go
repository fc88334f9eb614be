package postgres

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/devcert"
)

func TestRootsThatAreCutCountAsUnchanged(t *testing.T) {
	t.Parallel()
	before, after := authority(t), authority(t)
	path := filepath.Join(t.TempDir(), "root.crt")
	write := func(parts ...[]byte) {
		t.Helper()
		if err := os.WriteFile(path, slices.Concat(parts...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte("# ours\n"), before.PEM)
	connString := "postgres://h/d?sslmode=verify-full&sslrootcert=" + path
	cc, err := pgx.ParseConfig(connString)
	if err != nil {
		t.Fatal(err)
	}
	reread := RereadRoots(connString)
	roots := func() any {
		t.Helper()
		fresh := cc.Copy()
		if err := reread(t.Context(), fresh); err != nil {
			t.Fatal(err)
		}
		return fresh.TLSConfig.RootCAs
	}
	old := roots()
	write(after.PEM, before.PEM[:len(before.PEM)/2])
	if got := roots(); got != old {
		t.Error("a file that is cut was taken for whole")
	}
	write(after.PEM, []byte("and\n"), before.PEM)
	if got := roots(); got == old {
		t.Error("the file was not read again when it was whole")
	}
}

func authority(t *testing.T) *devcert.Authority {
	t.Helper()
	a, err := devcert.New("authority of a test")
	if err != nil {
		t.Fatal(err)
	}
	return a
}
