package relay

import "time"

// complaint is what was last said of a start that does not succeed.
type complaint struct {
	text string
	at   time.Time
}

// complainEvery is how long the same reason is not said again while the relay cannot start: the attempts follow each other closely.
const complainEvery = 30 * time.Second

// complain says why a term ended. A relay that has never worked is not interrupted, it cannot start; the same reason is then said once in a while.
func (r *Relay) complain(err error, pause time.Duration) {
	if r.opened {
		r.cfg.Logger.Warn("relay interrupted", "error", err, "again_in", rounded(pause).String())
		return
	}
	now := r.cfg.now()
	if r.complained.text == err.Error() && now.Sub(r.complained.at) < complainEvery {
		return
	}
	r.complained = complaint{err.Error(), now}
	r.cfg.Logger.Warn("cannot start yet", "error", err, "again_in", rounded(pause).String())
}

// warn passes on what the source warns of, each warning once: a source is opened at every attempt.
func (r *Relay) warn(info SourceInfo) {
	for _, w := range info.Warnings {
		if r.warned[w] {
			continue
		}
		r.warned[w] = true
		r.cfg.Logger.Warn("source", "table", info.Name, "warning", w)
	}
}

// rounded is a time as people read it.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
