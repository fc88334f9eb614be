package await

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakLimit is how long goroutines may take to end when all tests have. On a busy machine they end late.
const leakLimit = 30 * time.Second

// NoGoroutine waits until no goroutine of the tests is left; the error shows those that stay.
func NoGoroutine(options ...goleak.Option) (err error) {
	for began := time.Now(); ; {
		if err = goleak.Find(options...); err == nil || time.Since(began) > leakLimit {
			return err
		}
	}
}

// Main runs the tests of a package, and fails when a goroutine is left. A package calls it from its TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := NoGoroutine(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left after the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}
