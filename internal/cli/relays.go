package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/postgres"
)

// relays says who publishes and who waits, a line for each; those that have lanes come first.
func relays(s postgres.Status) []string {
	lines, holders := holders(s)
	does := "waits, seen"
	switch n := free(s.Lanes); {
	case anyCompeting(s.Relays):
	case len(lines) == 0:
		// One that waits would have taken lanes: it has just been stopped, or cannot work.
		does = "last seen"
		lines = append(lines, "none has a lane: nothing is published")
	case n > 0:
		lines = append(lines, fmt.Sprintf("nobody: %s, whose events wait until a relay takes them", plural(n, "lane")))
	}
	for _, r := range s.Relays {
		if slices.Contains(holders, r.ID) || r.Remaining <= 0 {
			continue
		}
		what := does
		if r.Competing {
			what = "competes for rows, seen"
		}
		lines = append(lines, fmt.Sprintf("%s: %s %s%s", printable(r.Name), what, ago(s, r), silent(s, r)))
	}
	return append(lines, dead(s, holders)...)
}

// deadShown bounds the relays that are named though they are dead: one that crashes at each start leaves thousands.
const deadShown = 5

// dead are the relays that ended without a word, those last that were seen first.
func dead(s postgres.Status, holders []uuid.UUID) (lines []string) {
	var gone []postgres.RelayStatus
	for _, r := range s.Relays {
		if r.Remaining <= 0 && !slices.Contains(holders, r.ID) {
			gone = append(gone, r)
		}
	}
	slices.SortStableFunc(gone, func(a, b postgres.RelayStatus) int { return b.SeenAt.Compare(a.SeenAt) })
	for _, r := range gone[:min(len(gone), deadShown)] {
		lines = append(lines, fmt.Sprintf("%s: dead, last seen %s", printable(r.Name), ago(s, r)))
	}
	if more := len(gone) - deadShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more that are dead: --json lists them", more))
	}
	return lines
}

// ago is how long before the status a relay was seen, in seconds while these are what counts.
func ago(s postgres.Status, r postgres.RelayStatus) string {
	d := s.At.Sub(r.SeenAt)
	if d < 10*time.Minute {
		return fmt.Sprintf("%d s ago", int(d.Round(time.Second).Seconds()))
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s") + " ago"
}

// silent marks a relay that Kafka does not answer.
func silent(s postgres.Status, r postgres.RelayStatus) string {
	if r.SilentSince.IsZero() {
		return ""
	}
	return fmt.Sprintf(", KAFKA DOES NOT ANSWER IT for %s: what it has waits", max(0, s.At.Sub(r.SilentSince)).Round(time.Second))
}

// anyCompeting tells that a relay is alive which competes for rows.
func anyCompeting(relays []postgres.RelayStatus) bool {
	return slices.ContainsFunc(relays, func(r postgres.RelayStatus) bool { return r.Competing && r.Remaining > 0 })
}

// free counts the lanes that nobody has.
func free(lanes []postgres.LaneStatus) (n int) {
	for _, l := range lanes {
		if l.Remaining <= 0 {
			n++
		}
	}
	return n
}

// lease is what one owner holds.
type lease struct {
	owner uuid.UUID
	name  string
	lanes int
	left  time.Duration
}

func holders(s postgres.Status) (lines []string, owners []uuid.UUID) {
	for _, l := range leases(s.Lanes) {
		owners = append(owners, l.owner)
		ends := fmt.Sprintf("lease ends in %d s", int(l.left.Round(time.Second).Seconds()))
		i := slices.IndexFunc(s.Relays, func(r postgres.RelayStatus) bool { return r.ID == l.owner })
		switch {
		case i < 0:
			name := "a relay"
			if l.name != "" {
				name = printable(l.name)
			}
			lines = append(lines, fmt.Sprintf("%s that is not seen any more: %s, %s", name, plural(l.lanes, "lane"), ends))
		case s.Relays[i].Remaining <= 0:
			lines = append(lines, fmt.Sprintf("%s: not seen for %s, %s, %s", printable(s.Relays[i].Name), s.At.Sub(s.Relays[i].SeenAt).Round(time.Second),
				plural(l.lanes, "lane"), ends))
		default:
			lines = append(lines, fmt.Sprintf("%s: %s, %s, seen %s%s", printable(s.Relays[i].Name), plural(l.lanes, "lane"), ends, ago(s, s.Relays[i]), silent(s, s.Relays[i])))
		}
	}
	return lines, owners
}

// leases sums up the lanes by their owners; an owner's lease ends when the first of its lanes is free.
func leases(lanes []postgres.LaneStatus) []lease {
	var all []lease
	for _, l := range lanes {
		if l.Remaining <= 0 {
			continue
		}
		i := slices.IndexFunc(all, func(have lease) bool { return have.owner == l.Owner })
		if i < 0 {
			all = append(all, lease{owner: l.Owner, name: l.OwnerName, left: l.Remaining})
			i = len(all) - 1
		}
		all[i].lanes++
		all[i].left = min(all[i].left, l.Remaining)
	}
	slices.SortFunc(all, func(a, b lease) int { return strings.Compare(a.name, b.name) })
	return all
}
