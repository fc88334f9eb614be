package pgtest

import (
	"flag"
	"runtime"
	"testing"
)

func TestASmallMachineRunsMoreTestsThanItHasProcessors(t *testing.T) {
	many := max(parallel, runtime.GOMAXPROCS(0))
	for name, c := range map[string]struct {
		url  string
		args []string
		want int
	}{
		"by itself":            {"", nil, many},
		"as many as are given": {"", []string{"-test.parallel", "3"}, 3},
		"on a given server":    {"postgres://u@h/d", nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DATABASE_URL", c.url)
			flags := flag.NewFlagSet("test", flag.ContinueOnError)
			n := flags.Int("test.parallel", 1, "")
			if err := flags.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			if err := moreAtATime(flags); err != nil {
				t.Fatal(err)
			}
			if *n != c.want {
				t.Errorf("%d tests at a time, want %d", *n, c.want)
			}
		})
	}
}
