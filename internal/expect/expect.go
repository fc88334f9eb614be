// Package expect compares what tests got with what they want, and says both.
package expect

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Same compares values by what they print.
func Same[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s = %s, want %s", what, g, w)
	}
}

// Text checks that the error tells all of the parts.
func Text(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q does not say %q", err, part)
		}
	}
}

// About checks a time that passed since a moment that the test chose: a slow machine makes it longer, and nothing makes it shorter.
func About(t testing.TB, what string, got, want time.Duration) {
	t.Helper()
	if got < want || got > want+10*time.Minute {
		t.Errorf("%s = %s, want %s and little more", what, got, want)
	}
}
