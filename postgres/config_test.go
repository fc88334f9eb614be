package postgres

import (
	"strings"
	"testing"
)

func TestConfigReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := New(nil, Config{Table: "a.b.c", Settle: 7})
	if err == nil {
		t.Fatal("New gave no error")
	}
	for _, part := range []string{"pool is nil", `"a.b.c"`, "settle mode 7"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %q", err, part)
		}
	}
}
