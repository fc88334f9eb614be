package operate

import (
	"context"
	"strconv"
)

// Cancel cancels a job, wherever it runs. What is carried out by then stays done. The reason, which may be empty, goes into the audit.
func (s *Service) Cancel(ctx context.Context, a Actor, job int64, reason string) error {
	return s.cancel(ctx, a, "job", job, reason, func() (change, error) {
		if err := s.store.CancelJob(ctx, job, a.Name); err != nil {
			return change{}, err
		}
		return change{affected: 1, job: job}, nil
	})
}

// CancelRequest takes back a request that belongs to no job, such as one whose command was killed: it is not carried out any more. One that was carried out, or taken
// back, has [CodeConflict], and its answer is in the error's text.
func (s *Service) CancelRequest(ctx context.Context, a Actor, request int64, reason string) error {
	return s.cancel(ctx, a, "request", request, reason, func() (change, error) {
		answer, withdrawn, err := s.store.Withdraw(ctx, request, a.Name)
		switch {
		case err != nil:
			return change{}, err
		case withdrawn:
			return change{affected: 1}, nil
		case answer.Problem != "":
			return change{}, Refuse(CodeConflict, "request %d is closed already: %s", request, answer.Problem)
		}
		return change{}, Refuse(CodeConflict, "request %d is carried out already: %s", request, answer.Text)
	})
}

// cancel does either with a row of the audit that names what is cancelled.
func (s *Service) cancel(ctx context.Context, a Actor, what string, id int64, reason string, do func() (change, error)) error {
	if id <= 0 {
		return Refuse(CodeInvalid, "%s %d: want the id of a %s; outbox jobs list shows them", what, id, what)
	}
	if !storable(reason) {
		return Refuse(CodeInvalid, "the reason is no UTF-8, or holds a NUL")
	}
	return s.audited(ctx, a, VerbCancel, map[string]any{what: strconv.FormatInt(id, 10)}, reason, func(int64) (change, error) { return do() })
}
