package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestMissingTopicsAreAskedForUntilTheyHadTimeToAppear(t *testing.T) {
	t.Parallel()
	gone, away := errors.New("orders is missing"), errors.New("away")
	never := time.Hour
	for name, c := range map[string]struct {
		appears, deadline, cancelled time.Duration
		checkFails                   error
		took                         time.Duration
		missing, err                 error
	}{
		"there":     {appears: 0, deadline: never, took: 0},
		"late":      {appears: 3 * time.Second, deadline: never, took: 3200 * time.Millisecond},
		"never":     {appears: never, deadline: never, took: 5200 * time.Millisecond, missing: gone},
		"no time":   {appears: never, deadline: time.Second, took: time.Second, missing: gone},
		"stopped":   {appears: never, deadline: never, cancelled: time.Second, took: time.Second, err: context.Canceled},
		"no answer": {appears: never, deadline: never, checkFails: away, err: away},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
				defer cancel()
				if c.cancelled > 0 {
					time.AfterFunc(c.cancelled, cancel)
				}
				missing, err := MissingTopics(ctx, []string{"orders", "payments"}, func(context.Context, []string) (map[string]error, error) {
					if time.Since(began) < c.appears {
						return map[string]error{"orders": gone}, c.checkFails
					}
					return nil, c.checkFails
				})
				if took := time.Since(began); !errors.Is(missing, c.missing) || !errors.Is(err, c.err) || took != c.took {
					t.Errorf("missing %v, error %v after %s; want %v, %v after %s", missing, err, took, c.missing, c.err, c.took)
				}
			})
		})
	}
}
