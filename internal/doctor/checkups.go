package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/checkup"
	"github.com/outbox-relay/outbox/kafka"
)

// checkups looks at what does not keep a relay from starting. Each look that fails is said, and the next one is made all the same, while the database answers.
func (d *database) checkups(ctx context.Context) error {
	list, err := checkup.Checks(d.cfg.Pool, d.cfg.Table, d.cfg.Checkups)
	if err != nil {
		return fmt.Errorf("look at the database: %w", err)
	}
	for _, c := range list {
		switch {
		case d.silent >= unanswered:
			d.NotLookedAt = append(d.NotLookedAt, Unseen{What: c.Subject, Why: notAnswered})
		case c.AfterMigration && d.without != "":
			d.NotLookedAt = append(d.NotLookedAt, Unseen{What: c.Subject, Why: d.without})
		default:
			d.checkup(ctx, c)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (d *database) checkup(ctx context.Context, c checkup.Check) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Limit)
	defer cancel()
	symptoms, unseen, err := c.Look(ctx)
	// A server that ends a statement itself has answered.
	if errors.Is(err, context.DeadlineExceeded) {
		d.silent++
	} else {
		d.silent = 0
	}
	switch {
	case err != nil:
		d.NotLookedAt = append(d.NotLookedAt, Unseen{What: c.Subject, Why: unseenFor(err, d.cfg.Limit)})
	case unseen != "":
		d.NotLookedAt = append(d.NotLookedAt, Unseen{What: c.Subject, Why: unseen})
		d.Findings = append(d.Findings, findings(symptoms)...)
	default:
		d.add(c.Subject, findings(symptoms))
	}
}

// tooLate tells that a look was ended by its limit, here or by the server.
func tooLate(err error) bool {
	pg, refused := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, context.DeadlineExceeded) || refused && pg.Code == "57014"
}

// unseenFor is why a look has failed, in a few words.
func unseenFor(err error, limit time.Duration) string {
	pg, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case lacksRight(err):
		return "the role lacks a right: " + pg.Message
	case kafka.IsForbidden(err):
		return fmt.Sprintf("the user lacks a right, such as DESCRIBE_CONFIGS on the cluster: %v", err)
	case tooLate(err):
		return fmt.Sprintf("it took longer than %s", limit)
	}
	return err.Error()
}

func findings(symptoms []checkup.Symptom) (found []Finding) {
	for _, s := range symptoms {
		f := Finding{Code: s.Code, Severity: Warning, Text: s.Text, Why: s.Why, Mend: s.Mend, MendSQL: s.SQL}
		if s.Grave {
			f.Severity = Error
		}
		found = append(found, f)
	}
	return found
}
