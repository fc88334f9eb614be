package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// snapshot is pg_current_snapshot(): which top-level transactions a statement sees as running. Its xids are 64 bits wide and never wrap.
type snapshot struct {
	xmin, xmax uint64
	// inProgress are those between xmin and xmax that were in progress, sorted.
	inProgress []uint64
}

// parseSnapshot reads the text form xmin:xmax:xid,xid,…
func parseSnapshot(text string) (snapshot, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return snapshot{}, fmt.Errorf("parse snapshot %q: it has not three parts", text)
	}
	numbers := parts[:2:2]
	if parts[2] != "" {
		numbers = append(numbers, strings.Split(parts[2], ",")...)
	}
	xids := make([]uint64, len(numbers))
	for i, n := range numbers {
		xid, err := strconv.ParseUint(n, 10, 64)
		if err != nil {
			return snapshot{}, fmt.Errorf("parse snapshot %q: %w", text, err)
		}
		xids[i] = xid
	}
	return snapshot{xmin: xids[0], xmax: xids[1], inProgress: xids[2:]}, nil
}

// running tells whether the transaction had not finished when the snapshot was taken. xid is a top-level one, as pg_locks prints it.
func (s snapshot) running(xid uint32) bool {
	x := s.widen(xid)
	if x < s.xmin {
		return false
	}
	if x >= s.xmax {
		return true
	}
	_, found := slices.BinarySearch(s.inProgress, x)
	return found
}

// widen gives a 32-bit xid the epoch that brings it nearest to the snapshot: an xid in use is never 2^31 away from the newest one.
func (s snapshot) widen(xid uint32) uint64 {
	distance := int32(xid - uint32(s.xmax))
	return s.xmax + uint64(int64(distance))
}
