package postgres

import "github.com/outbox-relay/outbox/relay"

// stage is requests of one verb that one statement may carry out: no two of them are about the same.
type stage struct {
	verb string
	// members are their places in the batch.
	members []int
	about   map[target]struct{}
	// whole tells of each key whether it is asked about as a whole; its events are not asked about besides.
	whole map[relay.Key]bool
}

// target is what a request is about: an event, or with the zero Ref a key.
type target struct {
	key relay.Key
	ref relay.Ref
}

func (r request) target() target {
	if r.event == nil {
		return target{key: r.key}
	}
	return target{r.key, *r.event}
}

// stages divides a batch. The requests for a key keep their order from stage to stage; those for different keys need none, so a batch of many keys and
// few verbs has few stages.
func stages(rs []request) []*stage {
	var all []*stage
	last := map[relay.Key]int{}
	for i, r := range rs {
		at := last[r.key]
		for at < len(all) && !all[at].takes(r) {
			at++
		}
		if at == len(all) {
			all = append(all, &stage{verb: r.verb, about: map[target]struct{}{}, whole: map[relay.Key]bool{}})
		}
		all[at].members = append(all[at].members, i)
		all[at].about[r.target()] = struct{}{}
		all[at].whole[r.key] = r.event == nil
		last[r.key] = at
	}
	return all
}

// takes tells whether a request may join.
func (s *stage) takes(r request) bool {
	_, again := s.about[r.target()]
	whole, known := s.whole[r.key]
	return s.verb == r.verb && !again && (!known || whole == (r.event == nil))
}
