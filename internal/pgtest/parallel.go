package pgtest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
)

// parallel is how many tests run at the same time at least, where the server is this package's own. Tests of a database wait for locks, for leases and for
// its answers much of their time, which the processors of a small machine would spend idle.
const parallel = 6

// moreAtATime raises -test.parallel, unless it was given, or the server at DATABASE_URL has to do with the connections that it has.
func moreAtATime(flags *flag.FlagSet) error {
	given := false
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given || os.Getenv("DATABASE_URL") != "" {
		return nil
	}
	return flags.Set("test.parallel", strconv.Itoa(max(parallel, runtime.GOMAXPROCS(0))))
}
