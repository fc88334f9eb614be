package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/postgres"
)

// checkups looks at what does not keep a relay from starting. Each look that fails is said, and the next one is made all the same.
func (r *Report) checkups(ctx context.Context, cfg Config, made bool) error {
	list, err := postgres.Checkups(cfg.Pool, cfg.Table, cfg.Checkups)
	if err != nil {
		return fmt.Errorf("look at the database: %w", err)
	}
	for _, c := range list {
		if c.AfterMigration && !made {
			r.NotLookedAt = append(r.NotLookedAt, Unseen{c.Subject, "the table or the schema outbox is not made yet"})
			continue
		}
		symptoms, unseen, err := examined(ctx, cfg.Limit, c.Look)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil:
			r.NotLookedAt = append(r.NotLookedAt, Unseen{c.Subject, unseenFor(err, cfg.Limit)})
		case unseen != "":
			r.NotLookedAt = append(r.NotLookedAt, Unseen{c.Subject, unseen})
			r.Findings = append(r.Findings, findings(symptoms)...)
		default:
			r.add(c.Subject, findings(symptoms))
		}
	}
	return nil
}

func examined(ctx context.Context, limit time.Duration, look func(context.Context) ([]postgres.Symptom, string, error)) ([]postgres.Symptom, string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return look(ctx)
}

// unseenFor is why a look has failed, in a few words.
func unseenFor(err error, limit time.Duration) string {
	pg, refused := errors.AsType[*pgconn.PgError](err)
	switch {
	case lacksRight(err):
		return "the role lacks a right: " + pg.Message
	case kafka.IsForbidden(err):
		return fmt.Sprintf("the user lacks a right, such as DESCRIBE_CONFIGS on the cluster: %v", err)
	case errors.Is(err, context.DeadlineExceeded), refused && pg.Code == "57014":
		return fmt.Sprintf("it took longer than %s", limit)
	}
	return err.Error()
}

func findings(symptoms []postgres.Symptom) (found []Finding) {
	for _, s := range symptoms {
		f := Finding{Code: s.Code, Severity: Warning, Text: s.Text, Why: s.Why, Mend: s.Mend, MendSQL: s.SQL}
		if s.Grave {
			f.Severity = Error
		}
		found = append(found, f)
	}
	return found
}
