package postgres

import (
	"context"

	"github.com/outbox-relay/outbox/relay"
)

var _ relay.Watcher = (*Source)(nil)

// Watch implements [relay.Watcher]: it logs when the index for what is unpublished goes, and when it is back.
func (s *Source) Watch(ctx context.Context) error {
	_, err := s.Backlog(ctx)
	return err
}
