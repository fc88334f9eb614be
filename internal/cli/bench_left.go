package cli

import (
	"strings"

	"github.com/outbox-relay/outbox/internal/benchmark"
)

// explainRemoval explains by what the run failed, and says beneath it what could not be removed and why: one must not hide the other.
func explainRemoval(r *benchmark.RemovalError) error {
	cause := error(r)
	var parts []string
	if r.Cause != nil {
		cause = explain(r.Cause)
		parts = append(parts, cause.Error())
	}
	for _, left := range r.Left {
		why := strings.ReplaceAll(explain(left.Err).Error(), "\n  hint: ", "; ")
		parts = append(parts, left.What+" is not removed: "+why+"; "+left.Advice)
	}
	return &explainedError{strings.Join(parts, "\n"), cause}
}
