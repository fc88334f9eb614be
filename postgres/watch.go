package postgres

import (
	"context"
	"errors"

	"github.com/outbox-relay/outbox/relay"
)

var _ relay.Watcher = (*Source)(nil)

// Watch implements [relay.Watcher]: it logs when the index for what is unpublished goes, and when it is back, and removes records of attempts with events that are published.
func (s *Source) Watch(ctx context.Context) error {
	o, err := s.now("watch")
	if err != nil {
		return err
	}
	_, err = s.Backlog(ctx)
	return errors.Join(err, o.ghosts.forget(ctx))
}
