//go:build integration && unix

package chaos_test

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tell prints each minute how far a run is and what it costs, until ended is called.
func (l *lab) tell(length time.Duration) (ended func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for minute := 1; ; minute++ {
			select {
			case <-over:
				return
			case <-tick.C:
				l.t.Logf("minute %d of %g: %s", minute, length.Minutes(), l.progress())
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

// progress says in one line what has happened and what it costs. What a server does not tell just now is -1.
func (l *lab) progress() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l.mu.Lock()
	faults := len(l.faults)
	l.mu.Unlock()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return fmt.Sprintf("%d faults, %d transactions, %d records in Kafka, %d events unpublished; memory of the judge %d MB; on disk: relays' logs %d MB, Kafka %d MB, database %d MB, PostgreSQL's log %d MB",
		faults, l.ledger.size(), l.appended(ctx), l.unpublished(), memory.Sys>>20, onDisk(l.dir)>>20, onDisk(shared.dir, "kafka-")>>20,
		max(-1, l.count("SELECT pg_database_size(current_database()) >> 20")), onDisk(l.server.LogFile())>>20)
}

// onDisk is how many bytes the files below a folder take, whose first name below it begins so.
func onDisk(top string, beginning ...string) (bytes int64) {
	_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // files come and go
		}
		below, _ := filepath.Rel(top, path)
		if below != "." && len(beginning) > 0 && !strings.HasPrefix(below, beginning[0]) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := entry.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += stat.Blocks * 512
			}
		}
		return nil
	})
	return bytes
}

func TestAFileCountsWithWhatItTakesOnDisk(t *testing.T) {
	t.Parallel()
	before := onDisk(t.TempDir())
	if n := onDisk("history", "check"); before > 1<<16 || n == 0 || n >= onDisk("history") {
		t.Errorf("an empty folder takes %d, two files %d, all of them %d bytes", before, n, onDisk("history"))
	}
}
