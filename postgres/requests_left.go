package postgres

import (
	"slices"

	"github.com/outbox-relay/outbox/relay"
)

// The requests of a key are carried out in their order: to restore two events of a key is to restore the older one first, or the newer one is in Kafka before it. So where one
// stays open, because its key is busy or somebody has a row locked, the later ones of its key stay open too, until the next round begins with it.

// begin begins a round anew when the claim is another one than that of the last batch: of a lane that was gained meanwhile nobody has looked at what the round has passed.
func (q *requests) begin(claim relay.Claim) {
	if !slices.Equal(q.claim.Lanes, claim.Lanes) || !slices.Equal(q.claim.Epochs, claim.Epochs) {
		q.claim = claim
		q.endRound()
	}
}

// endRound has the next batch begin with the oldest request.
func (q *requests) endRound() { q.after, q.left = 0, nil }

// leave notes that a request of the key stays open in this round.
func (q *requests) leave(key relay.Key) {
	if q.left == nil {
		q.left = map[relay.Key]struct{}{}
	}
	q.left[key] = struct{}{}
}

func (q *requests) isLeft(key relay.Key) bool {
	_, left := q.left[key]
	return left
}

// onlyReady returns the requests for keys of which nothing is in flight and no earlier one was left; the others are left.
func (q *requests) onlyReady(batch []request, ready func([]relay.Key) []relay.Key) []request {
	asked := make(map[relay.Key]bool, len(batch))
	keys := make([]relay.Key, 0, len(batch))
	for _, r := range batch {
		if !asked[r.key] && !q.isLeft(r.key) {
			asked[r.key] = true
			keys = append(keys, r.key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	for _, key := range ready(keys) {
		asked[key] = false
	}
	for _, key := range keys {
		if asked[key] {
			q.leave(key)
		}
	}
	return slices.DeleteFunc(batch, func(r request) bool { return q.isLeft(r.key) })
}

// overtakes tells of each request whether it was carried out while one of its key stays open that is in front of it. They are in their order.
func overtakes(rs []request, replies []reply) func(i int) bool {
	open := map[relay.Key]int{}
	for i, r := range rs {
		if _, known := open[r.key]; replies[i].later && !known {
			open[r.key] = i
		}
	}
	return func(i int) bool {
		first, known := open[rs[i].key]
		return known && i > first && !replies[i].later
	}
}
