package cli

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/outbox-relay/outbox/internal/fleet"
	"github.com/outbox-relay/outbox/relay"
)

// sourceState is what has become of one source.
type sourceState = fleet.State[*sourceRelay]

// answer says how each source is, one line for each, and 503 when the check refuses one of them. The parameter source asks for a single one. Where there is only one source, its
// line does not name it.
func answer(relays *relayFleet, check func(sourceState) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		states := relays.States()
		several := len(states) > 1
		if name := r.URL.Query().Get("source"); name != "" {
			if states = named(states, name); len(states) == 0 {
				http.Error(w, "there is no such source", http.StatusNotFound)
				return
			}
		}
		text, ok := report(states, several, check)
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, text)
	}
}

func named(states []sourceState, name string) []sourceState {
	for _, s := range states {
		if s.Name == name {
			return []sourceState{s}
		}
	}
	return nil
}

func report(states []sourceState, several bool, check func(sourceState) error) (text string, ok bool) {
	var b strings.Builder
	ok = true
	for _, s := range states {
		if several {
			fmt.Fprintf(&b, "%s: ", s.Name)
		}
		if err := check(s); err != nil {
			ok = false
			fmt.Fprintln(&b, oneLine(err))
			continue
		}
		fmt.Fprintln(&b, "ok"+pausedNote(s))
	}
	return b.String(), ok
}

// pausedNote says what operators keep back. Who has paused a source does not want its relay restarted, so it is ready all the same.
func pausedNote(s sourceState) string {
	if !s.Made {
		return ""
	}
	stats := s.Engine.Stats()
	var parts []string
	if stats.Paused {
		parts = append(parts, "everything")
	}
	if n := len(stats.PausedTopics); n > 0 {
		parts = append(parts, plural(n, "topic"))
	}
	if stats.PausedKeys > 0 {
		parts = append(parts, plural(stats.PausedKeys, "key"))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; paused: " + strings.Join(parts, ", ") + "; see outbox pause list"
}

// oneLine says an error with its remedy in one line.
func oneLine(err error) string {
	return inOneLine(explain(err).Error())
}

// turnLimit is longer than any statement of the loop may take.
const turnLimit = 90 * time.Second

// sourceLive tells whether the source's loop turns, if it should.
func sourceLive(s sourceState, now time.Time) error {
	if !s.Made || s.Again > 0 {
		return nil
	}
	return live(s.Engine.Stats(), now)
}

// live tells whether the loop turns. Outages of database and brokers do not count: a restart would not mend them.
func live(s relay.Stats, now time.Time) error {
	if !s.LastTurn.IsZero() && now.Sub(s.LastTurn) > turnLimit {
		return fmt.Errorf("the loop has not turned for %s", now.Sub(s.LastTurn).Round(time.Second))
	}
	return nil
}

// sourceReady tells whether events of the source flow, or would if this relay had lanes.
func sourceReady(s sourceState) error {
	switch {
	case s.Err != nil:
		return fmt.Errorf("does not come up: %s", oneLine(s.Err))
	case !s.Made:
		return errors.New("starting")
	}
	return ready(s.Engine.Stats())
}

// ready tells whether events flow, or would if this relay had lanes.
func ready(s relay.Stats) error {
	switch {
	case s.Stalled:
		return fmt.Errorf("Kafka acknowledges nothing for %s: %d events are outstanding", s.Silent.Round(time.Second), s.Outstanding)
	case s.LastError != nil:
		return fmt.Errorf("interrupted: %w", s.LastError)
	case !s.Leading && s.Waiting == "":
		return errors.New("starting")
	}
	return nil
}
