//go:build integration

package pooler_test

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/devbouncer"
)

// A pooler that loses prepared statements is named together with the setting that services need; one that keeps them is not.
func TestTheDoctorNamesAPoolerThatLosesPreparedStatements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		o      devbouncer.Options
		wanted string
	}{
		{"loses them", devbouncer.Options{Version: old}, "it loses prepared statements"},
		{"one connection", devbouncer.Options{Version: old, PoolSize: 1}, "it serves one connection at a time"},
		{"keeps them", devbouncer.Options{Version: recent, Params: map[string]string{"max_prepared_statements": "100"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, c.o)
			stdout, stderr, code := f.outbox(t, "doctor")
			if code != 0 {
				t.Fatalf("ended with %d:\n%s%s", code, stdout, stderr)
			}
			named := strings.Contains(stdout, "[pooler-prepared-statements]") && strings.Contains(stdout, "default_query_exec_mode=exec")
			if named != (c.wanted != "") || !strings.Contains(stdout, c.wanted) {
				t.Errorf("want %q in\n%s", c.wanted, stdout)
			}
		})
	}
}
