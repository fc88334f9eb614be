package relay

import (
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
)

// complain says why a term ended.
func (r *Relay) complain(err error, pause time.Duration) {
	r.complained.Say(r.cfg.Logger, r.cfg.now(), r.opened, err, pause)
}

// warn passes on what the source warns of, each warning once.
func (r *Relay) warn(info SourceInfo) { engine.Warn(r.cfg.Logger, info.Name, info.Warnings, r.warned) }
