package postgres

import "testing"

func TestSnapshotTellsWhoIsRunning(t *testing.T) {
	t.Parallel()
	const wrap = 1 << 32
	for _, c := range []struct {
		text    string
		xid     uint32
		running bool
	}{
		{"100:200:100,150", 99, false},
		{"100:200:100,150", 100, true},
		{"100:200:100,150", 101, false},
		{"100:200:100,150", 150, true},
		{"100:200:100,150", 199, false},
		{"100:200:100,150", 200, true},
		{"100:100:", 99, false},
		{"100:100:", 100, true},
		// The epoch has just changed: 4294967290 is older than 5.
		{"4294967290:4294967301:4294967290", 4294967290, true},
		{"4294967290:4294967301:4294967290", 4294967291, false},
		{"4294967290:4294967301:4294967290", 4, false},
		{"4294967290:4294967301:4294967290", 5, true},
		// The epoch is about to change: 5 is newer.
		{"8589934580:8589934590:8589934580", 5, true},
		{"8589934580:8589934590:8589934580", 4294967285, false},
	} {
		s, err := parseSnapshot(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.running(c.xid); got != c.running {
			t.Errorf("in %s, %d is running: %t", c.text, c.xid, got)
		}
	}
	s := snapshot{xmax: 2*wrap + 1}
	same(t, "an old xid of this epoch", s.widen(1), uint64(2*wrap+1))
	same(t, "an old xid of the last epoch", s.widen(wrap-1), uint64(2*wrap-1))
}

func TestMalformedSnapshotIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1:2", "1:2:3:4", "a:2:", "1:2:x"} {
		if s, err := parseSnapshot(text); err == nil {
			t.Errorf("parseSnapshot(%q) = %+v, want an error", text, s)
		}
	}
}
