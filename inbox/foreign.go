package inbox

import "context"

// Consumers that read the same topic share its retry topics: what one has sent there is not for the others, which have handled it, or have a record of their own there.

// foreign tells that another consumer has sent the record to a retry topic. One that does not say who has is Spring's.
func (r *Runner) foreign(record *Record) bool {
	if _, again := r.stage(record); !again {
		return false
	}
	by, said := record.Header(HeaderConsumer)
	return said && string(by) != r.handling.Consumer()
}

// outcomes has records handled, and returns what became of each. Those of other consumers are ignored.
func (r *Runner) outcomes(ctx context.Context, records []*Record) []Outcome {
	all := make([]Outcome, len(records))
	var own []*Record
	var places []int
	for i, record := range records {
		if r.foreign(record) {
			all[i] = Outcome{Result: Ignored}
			continue
		}
		own, places = append(own, record), append(places, i)
	}
	if len(own) == 0 {
		return all
	}
	for i, o := range r.handling.Handle(ctx, own) {
		all[places[i]] = o
	}
	return all
}
