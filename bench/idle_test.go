package main

import (
	"testing"
	"time"
)

func TestStatementsAreCountedInTheLog(t *testing.T) {
	t.Parallel()
	const log = `2026-01-02 03:04:05.678 UTC [99] LOG:  database system is ready to accept connections
2026-01-02 03:04:05.678 UTC [100] LOG:  statement: begin isolation level read committed
2026-01-02 03:04:05.678 UTC [100] LOG:  execute <unnamed>: SELECT 1
2026-01-02 03:04:05.678 UTC [100] DETAIL:  parameters: $1 = 'LOG:  statement: no'
2026-01-02 03:04:05.678 UTC [100] LOG:  execute stmtcache_1: 
	WITH a AS (SELECT 'LOG:  statement: no')
	SELECT 2 -- 2026-01-02 03:04:05.678 UTC [100] LOG:  statement: no
2026-01-02 03:04:05.678 UTC [100] ERROR:  canceling statement due to user request
2026-01-02 03:04:05.678 UTC [100] STATEMENT:  SELECT 2
2026-01-02 03:04:05.678 UTC [98] LOG:  checkpoint complete: wrote 3 buffers
`
	if got := statementsIn([]byte(log)); got != 3 {
		t.Errorf("got %d, want 3", got)
	}
}

func TestProcessorTimeIsReadFromTheStatOfAProcess(t *testing.T) {
	t.Parallel()
	const stat = "42 (a name) with ) S 1 42 42 0 -1 4194560 1 2 3 4 150 25 7 8 20 0 9 0 5 6 7\n"
	if got, err := cpuOf(stat); err != nil || got != 1750*time.Millisecond {
		t.Errorf("got %s, %v, want 1.75s", got, err)
	}
	for _, broken := range []string{"", "42 (outbox) S 1 2", "42 (outbox) S 1 42 42 0 -1 4194560 1 2 3 4 x 25 7 8"} {
		if got, err := cpuOf(broken); err == nil {
			t.Errorf("%q: got %s, want an error", broken, got)
		}
	}
}
