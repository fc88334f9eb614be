package relay

import (
	"fmt"
	"strings"
)

// stick keeps events in flight for as long as the gate lives: they are in Kafka, and their rows cannot be settled. Neither the sweep nor a walk may hand
// them out again. They keep their places in the budget, without the memory that is free again, and stop nothing else. Those of an earlier
// term are taken in.
func (g *gate) stick(refs []Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ref := range refs {
		f, known := g.inFlight[ref]
		if f.stuck {
			continue
		}
		if !known {
			g.events++
		}
		g.bytes += flatSize - f.size
		g.inFlight[ref] = flight{key: f.key, size: flatSize, stuck: true}
		g.stuck++
	}
	g.room.set()
}

// choked tells that events which can never be settled leave no room for others.
func (g *gate) choked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	full := g.events >= g.limitEvents || g.bytes >= g.limitBytes
	return full && g.stuck > 0 && g.stuck == g.events
}

// errChoked is why nothing is read any more.
func (t *term) errChoked() error {
	return fmt.Errorf("%d events of %s are in Kafka and their rows cannot be marked: there is no room for others (MaxInFlight); mend the table and start the relay again",
		t.settler.stuckEvents(), t.info.Name)
}

// noteUnsettled says which rows can never be settled, and what follows.
func (r *Relay) noteUnsettled(u *UnsettledError) {
	r.counters.unsettled.Add(int64(len(u.Refs)))
	r.cfg.Logger.Error("in Kafka, but its row cannot be marked", "table", r.info.Name, "events", len(u.Refs), "ids", someIDs(u.Refs), "error", u.Err,
		"note", "it will be published again after a restart, or when its lane moves to another relay: mend the constraint, trigger or policy, and mark the row by hand (published_at = now())")
}

// someIDs names the first of many rows.
func someIDs(refs []Ref) string {
	const most = 10
	var b strings.Builder
	for i, ref := range refs[:min(len(refs), most)] {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, ref.ID)
	}
	if len(refs) > most {
		b.WriteString(" …")
	}
	return b.String()
}
