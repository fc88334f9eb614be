//go:build integration && unix

package upgrade_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/migrate"
)

// migration is one that today's program does not know.
type migration struct{ name, text string }

func (m migration) file(version int) string { return fmt.Sprintf("%03d_%s.up.sql", version, m.name) }

// newest is the version of today's program.
func newest(t *testing.T) int {
	t.Helper()
	all, err := migrate.All()
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// bumped is the source that holds today's version, with a later one.
func bumped(t *testing.T, from, to int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "internal", "schema", "schema.go"))
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), fmt.Sprintf("const Newest = %d\n", from))
	if !found {
		t.Fatalf("internal/schema/schema.go does not say const Newest = %d", from)
	}
	return fmt.Sprintf("%sconst Newest = %d\n%s", before, to, after)
}

// says fails the test unless a command ended with the code and said just this on stderr.
func says(t *testing.T, what string, code, wantCode int, stderr, want string) {
	t.Helper()
	if code != wantCode || stderr != want {
		t.Errorf("%s: ended with %d, want %d\ngot  %swant %s", what, code, wantCode, stderr, want)
	}
}
