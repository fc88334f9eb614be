package postgres

import (
	"encoding/binary"
	"maps"
	"slices"
)

// span is a range of ids, both ends included.
type span struct{ lo, hi int64 }

// holders are the transactions that may still fill a hole: virtual transaction → its top-level xid, 0 while it has none.
type holders map[string]uint32

// group is the holes that wait for the same transactions.
type group struct {
	// spans are sorted and do not touch. A group of Start has none: see below.
	spans []span
	// below is set for the one group that Start makes, for the writers that were open then: all ids up to it may be holes.
	// It is never cut into pieces: what is handed out of it twice, the gate drops.
	below int64
	// since is the oldest xid that a row found below can have; nothing older is looked at.
	since uint32
	// asked tells that waits is known: pg_locks was asked after the holes were first seen.
	asked bool
	// looked tells that a read which started after the last change of waits has looked at the holes. Without this condition the
	// transaction that ended between the read that saw the hole and the question to pg_locks would be missed until the others end.
	looked bool
	waits  holders
}

// skippable tells that a read may leave the group out, provided that all its holders are running in the snapshot of that very read.
func (g *group) skippable() bool {
	if !g.looked || len(g.waits) == 0 {
		return false
	}
	for _, xid := range g.waits {
		if xid == 0 {
			return false
		}
	}
	return true
}

// strikeFinished takes the holders off that are not running any more in s, and tells whether there were any.
func (g *group) strikeFinished(s snapshot) bool {
	before := len(g.waits)
	maps.DeleteFunc(g.waits, func(_ string, xid uint32) bool { return xid != 0 && !s.running(xid) })
	return len(g.waits) < before
}

// answer takes in what pg_locks says now.
func (g *group) answer(now holders) {
	if !g.asked {
		g.asked, g.looked, g.waits = true, false, maps.Clone(now)
		return
	}
	for vxid, known := range g.waits {
		xid, still := now[vxid]
		switch {
		case !still:
			delete(g.waits, vxid)
			g.looked = false
		case known == 0:
			g.waits[vxid] = xid
		}
	}
}

// contains tells whether id is one of the group's holes. below is not counted: most ids there are no holes.
func (g *group) contains(id int64) bool {
	i, _ := slices.BinarySearchFunc(g.spans, id, func(s span, id int64) int {
		switch {
		case s.hi < id:
			return -1
		case s.lo > id:
			return 1
		}
		return 0
	})
	return i < len(g.spans) && g.spans[i].lo <= id && id <= g.spans[i].hi
}

// strike takes ids, sorted, out of the spans.
func (g *group) strike(ids []int64) {
	if len(ids) == 0 || len(g.spans) == 0 || ids[0] > g.spans[len(g.spans)-1].hi || ids[len(ids)-1] < g.spans[0].lo {
		return
	}
	left := make([]span, 0, len(g.spans))
	for _, s := range g.spans {
		for len(ids) > 0 && ids[0] <= s.hi {
			if ids[0] >= s.lo {
				left = appendSpan(left, s.lo, ids[0]-1)
				s.lo = ids[0] + 1
			}
			ids = ids[1:]
		}
		left = appendSpan(left, s.lo, s.hi)
	}
	g.spans = left
}

func appendSpan(spans []span, lo, hi int64) []span {
	if lo > hi {
		return spans
	}
	return append(spans, span{lo, hi})
}

// signature is equal for groups that can be one.
func (g *group) signature() string {
	key := make([]byte, 0, 32)
	key = binary.AppendVarint(key, g.below)
	key = append(key, yes(g.asked), yes(g.looked))
	for _, vxid := range slices.Sorted(maps.Keys(g.waits)) {
		key = append(append(key, vxid...), 0)
		key = binary.LittleEndian.AppendUint32(key, g.waits[vxid])
	}
	return string(key)
}

func yes(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// holes are the ids that the reader has passed without seeing a row, in groups.
type holes struct{ groups []*group }

// add takes in the holes that a read has left behind. Nobody has been asked about them yet.
func (h *holes) add(spans []span) {
	if len(spans) > 0 {
		h.groups = append(h.groups, &group{spans: spans})
	}
}

// needAnswer tells whether pg_locks can say anything new: about holes it was not asked about, or about a transaction without an xid.
// A holder with an xid is watched in the snapshots of the reads, for nothing.
func (h *holes) needAnswer() bool {
	return slices.ContainsFunc(h.groups, func(g *group) bool {
		if !g.asked {
			return true
		}
		for _, xid := range g.waits {
			if xid == 0 {
				return true
			}
		}
		return false
	})
}

// answer takes in what pg_locks says now, and joins the groups that have become equal.
func (h *holes) answer(now holders) {
	for _, g := range h.groups {
		g.answer(now)
	}
	h.merge()
}

func (h *holes) merge() {
	first := make(map[string]*group, len(h.groups))
	h.groups = slices.DeleteFunc(h.groups, func(g *group) bool {
		key := g.signature()
		m := first[key]
		if m == nil || g.below != 0 {
			first[key] = g
			return false
		}
		m.spans = joinSpans(m.spans, g.spans)
		return true
	})
}

// joinSpans joins two sorted lists; those that meet become one span.
func joinSpans(a, b []span) []span {
	all := append(slices.Clip(a), b...)
	if len(a) > 0 && len(b) > 0 && a[len(a)-1].hi > b[0].lo {
		slices.SortFunc(all, func(x, y span) int {
			if x.lo < y.lo {
				return -1
			}
			return 1
		})
	}
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && out[n-1].hi+1 == s.lo {
			out[n-1].hi = s.hi
			continue
		}
		out = append(out, s)
	}
	return out
}

// toLook returns the groups that the next read has to look at, and those that it may leave out on the condition of skippable.
func (h *holes) toLook() (look, skipped []*group) {
	for _, g := range h.groups {
		if g.skippable() {
			skipped = append(skipped, g)
		} else {
			look = append(look, g)
		}
	}
	return look, skipped
}

// lookedAt takes in that a read with snapshot s has looked at the groups, and closes those that nobody can fill any more: pg_locks was
// asked before the read, every transaction that it named has finished, and all that they committed was visible to the read.
func (h *holes) lookedAt(look []*group, s snapshot) {
	for _, g := range look {
		if g.asked {
			g.strikeFinished(s)
			g.looked = true
		}
	}
	h.groups = slices.DeleteFunc(h.groups, func(g *group) bool {
		return g.below == 0 && len(g.spans) == 0 || g.looked && len(g.waits) == 0
	})
}

// strike takes ids, sorted, out of the holes.
func (h *holes) strike(ids []int64) {
	for _, g := range h.groups {
		g.strike(ids)
	}
}

// contains tells whether id is a hole. What lies below the group of Start counts only if it is late.
func (h *holes) contains(id int64, late bool) bool {
	return slices.ContainsFunc(h.groups, func(g *group) bool {
		return g.contains(id) || late && id <= g.below
	})
}

// start returns the group that Start made, or nil.
func (h *holes) start() *group {
	for _, g := range h.groups {
		if g.below != 0 {
			return g
		}
	}
	return nil
}

// writers counts the transactions that hold up a hole.
func (h *holes) writers() int {
	all := map[string]bool{}
	for _, g := range h.groups {
		for vxid := range g.waits {
			all[vxid] = true
		}
	}
	return len(all)
}

// ranges counts the spans of ids whose rows may still appear; all that the writers may hold who were open at the start is one.
func (h *holes) ranges() (n int) {
	for _, g := range h.groups {
		n += len(g.spans)
		if g.below != 0 {
			n++
		}
	}
	return n
}
