package operate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox/internal/advice"
)

// mostNamed bounds the failed events that a report names by their ids.
const mostNamed = 100

// unreplayed are the events of a replay that were tried and failed: going on behind the last that was tried would drop them.
type unreplayed struct {
	named []int64
	// more are not named; their ids are from first to last.
	more, first, last int64
}

// add takes the failed events of a page.
func (u *unreplayed) add(ids []int64) {
	slices.Sort(ids)
	for _, id := range ids {
		if len(u.named) < mostNamed {
			u.named = append(u.named, id)
			continue
		}
		if u.more == 0 {
			u.first = id
		}
		u.more, u.last = u.more+1, id
	}
}

// ids are those that are named, as text.
func (u *unreplayed) ids() []string {
	list := make([]string, len(u.named))
	for i, id := range u.named {
		list[i] = strconv.FormatInt(id, 10)
	}
	return list
}

// again says how to replay them; "" when there are none.
func (u *unreplayed) again(b Bulk) string {
	if len(u.named) == 0 {
		return ""
	}
	text := fmt.Sprintf("when what failed is mended: outbox replay %s --reason %s", strings.Join(u.ids(), " "), advice.Word(b.Reason))
	switch {
	case u.more > 0 && b.Only != nil:
		text += fmt.Sprintf("; and %d more that failed, of the named ids from %d to %d", u.more, u.first, u.last)
	case u.more > 0:
		text += fmt.Sprintf("; and %d more that failed: the same filter with --min-id %d --max-id %d has them, and what was published between them", u.more, u.first, u.last)
	}
	return text
}

// failedEvent counts an event that failed. It is named once its page is through: what a lost client leaves behind is tried again by going on.
func (r *replaying) failedEvent(id int64, reason string) {
	r.failed(reason, 1)
	r.page = append(r.page, id)
}

// nameFailed takes the failed events of the page into the report.
func (r *replaying) nameFailed() {
	if len(r.page) == 0 {
		return
	}
	r.missed.add(r.page)
	r.report.FailedIDs, r.report.MoreFailedIDs, r.report.Again = r.missed.ids(), r.missed.more, r.missed.again(r.bulk)
}
