package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/checkup"
)

// The sentences of what a relay cannot do without.
const (
	writesSubject = "the server takes writes"
	poolerSubject = "nothing between client and server gets in the way of prepared statements"
	rightsSubject = "the role has the rights of a relay"
	schemaSubject = "schema, table and source are as the relay needs them"
)

// unanswered is how many looks in a row may end without an answer before the database is not asked any more: each takes its whole limit.
const unanswered = 2

// database is the examination of one.
type database struct {
	*Report
	cfg Config
	// silent counts the looks that have ended without an answer, since the last one that had one.
	silent int
	// without says why nothing can be looked at that needs the table and the schema outbox; "" when it can.
	without string
}

const (
	notMade     = "the table or the schema outbox is not made yet"
	notAnswered = "the database does not answer in time"
)

func (d *database) examine(ctx context.Context) error {
	if err := d.vital(ctx); err != nil {
		return err
	}
	return d.checkups(ctx)
}

// within makes a look at the database within the limit. An error ends the examination; seen tells that there was no error and an answer in time.
func (d *database) within(ctx context.Context, limit time.Duration, subject string, look func(context.Context) error) (seen bool, err error) {
	if d.silent >= unanswered {
		d.unseen(subject, notAnswered)
		return false, nil
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = look(limited)
	_, unreachable := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		d.silent = 0
		return true, nil
	case unreachable || !tooLate(err):
		return false, err
	}
	d.unseen(subject, unseenFor(err, limit))
	return false, nil
}

// unseen takes down that a look was in vain.
func (d *database) unseen(subject, why string) {
	d.NotLookedAt = append(d.NotLookedAt, Unseen{What: subject, Why: why, Vital: true})
}

// vital looks at what a relay cannot do without.
func (d *database) vital(ctx context.Context) error {
	if err := d.server(ctx); err != nil {
		return err
	}
	var lacking []Finding
	looked, err := d.within(ctx, d.cfg.Limit, rightsSubject, func(ctx context.Context) (err error) {
		lacking, err = rights(ctx, d.cfg.Pool, d.cfg.Table)
		return err
	})
	if err != nil {
		return err
	}
	var found []Finding
	var hidden bool
	made, err := d.within(ctx, d.cfg.Limit, schemaSubject, func(ctx context.Context) (err error) {
		found, err = schema(ctx, d.cfg.Pool, d.cfg.Table)
		// Without a right the state cannot be read; which right that is stands among the findings.
		if hidden = len(lacking) > 0 && lacksRight(err); hidden {
			found, err = columns(ctx, d.cfg.Pool, d.cfg.Table)
			return err
		}
		if err != nil || unmade(found) {
			return err
		}
		detached, err := partitions(ctx, d.cfg.Pool, d.cfg.Table)
		// Where something is wrong with rights or source, that has to be mended first.
		if err != nil && len(lacking)+len(found) > 0 && !tooLate(err) {
			err = nil
		}
		found = append(found, detached...)
		return err
	})
	if err != nil {
		return err
	}
	if unmade(found) {
		d.without = notMade
	}
	if looked && (len(lacking) > 0 || !unmade(found)) {
		d.add(rightsSubject, lacking)
	}
	switch {
	case made && hidden:
		d.Findings = append(d.Findings, found...)
		d.unseen(schemaSubject, "the role may not read the schema outbox; what gives it the right stands among the findings")
	case made:
		d.add(schemaSubject, found)
	}
	return nil
}

// server looks at what is at the other end. It may take twice the limit: the trial of a pooler takes as long by itself where it gets no second session.
func (d *database) server(ctx context.Context) error {
	var vital checkup.Vital
	seen, err := d.within(ctx, 2*d.cfg.Limit, writesSubject, func(ctx context.Context) (err error) {
		vital, err = checkup.ReadVital(ctx, d.cfg.Pool)
		return err
	})
	if err != nil {
		return err
	}
	if !seen {
		// The first look is the easiest one: nothing else is answered either.
		d.silent, d.without = unanswered, notAnswered
		d.unseen(poolerSubject, notAnswered)
		return nil
	}
	d.add(writesSubject, writable(vital))
	between, err := pooler(vital)
	if err == nil {
		d.add(poolerSubject, between)
	}
	return err
}
