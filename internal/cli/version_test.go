package cli

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionTellsTheCommit(t *testing.T) {
	t.Parallel()
	var o buildOrigin
	o.take([]debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-30T12:00:00Z"}, {Key: "vcs.modified", Value: "true"}, {Key: "GOOS", Value: "plan9"}})
	if want := (buildOrigin{Commit: "0123456789abcdef", CommitTime: "2026-11-30T12:00:00Z", Modified: true}); o != want {
		t.Errorf("got %+v, want %+v", o, want)
	}
}
