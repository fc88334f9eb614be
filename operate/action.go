package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// DefaultWait is how long a single change waits for the relay that carries it out.
const DefaultWait = 30 * time.Second

// Action is a verb on one event or one key.
type Action struct {
	// Verb is one of retry, skip, dead and restore, of an event; or of unpark and skip, of a key.
	Verb Verb
	// Event names the event; or Topic and PartitionKey the key, with a zero Event. A row can have an empty topic, so its key has one, too.
	Event               Ref
	Topic, PartitionKey string
	// Reason is needed for skip and dead.
	Reason string
	// Wait is how long to wait until it is carried out; 0 is [DefaultWait]. When that is over the request is taken back.
	Wait time.Duration
	// Overtaking agrees to restore an event though newer ones of its key are published, or may be, or it was sent to a dead-letter topic.
	Overtaking bool
}

// String is the verb and its object, as in "skip event 4711".
func (act Action) String() string {
	if act.ofEvent() {
		return fmt.Sprintf("%s event %s", act.Verb, act.Event)
	}
	return fmt.Sprintf("%s key %q of topic %s", act.Verb, act.PartitionKey, act.Topic)
}

// refuse says what could not be done, and why.
func (act Action) refuse(code Code, format string, args ...any) error {
	return Refuse(code, "%s: "+format, append([]any{act}, args...)...)
}

func (act Action) ofEvent() bool { return act.Event != Ref{} }

func (act Action) validate() error {
	verb, known := bulkVerbs[act.Verb]
	switch {
	case !known || act.Verb == VerbReplay:
		return Refuse(CodeInvalid, "%s cannot be done to one event or key: want retry, skip, dead, restore or unpark", act.Verb)
	case act.ofEvent() && !verb.events:
		return Refuse(CodeInvalid, "%s is for keys, not for events", act.Verb)
	case !act.ofEvent() && !verb.keys:
		return Refuse(CodeInvalid, "%s is for events, not for keys", act.Verb)
	case act.ofEvent() && (act.Topic != "" || act.PartitionKey != ""):
		return Refuse(CodeInvalid, "%s: name an event or a key, not both", act.Verb)
	case verb.reason && strings.TrimSpace(act.Reason) == "":
		return Refuse(CodeInvalid, "%s needs a reason: it is kept with what is done", act.Verb)
	case !storable(act.Reason) || !storable(act.Topic) || !storable(act.PartitionKey):
		return Refuse(CodeInvalid, "the topic, the key or the reason is no UTF-8, or holds a NUL")
	case act.Wait < 0:
		return Refuse(CodeInvalid, "wait %s: want 0 or more", act.Wait)
	}
	return nil
}

// actionFilter is what the audit keeps of an action.
type actionFilter struct {
	Event        Ref    `json:"event,omitzero"`
	Topic        string `json:"topic,omitempty"`
	PartitionKey string `json:"partition_key,omitempty"`
}

// Act does a verb to one event or key, and returns what was done, for people. Whatever the owner of the lane refuses has CodeConflict.
func (s *Service) Act(ctx context.Context, a Actor, act Action) (string, error) {
	if err := act.validate(); err != nil {
		return "", err
	}
	if err := s.unagreed(ctx, a, act); err != nil {
		return "", err
	}
	var text string
	err := s.audited(ctx, a, act.Verb, actionFilter{act.Event, act.Topic, act.PartitionKey}, act.Reason, func(audit int64) (change, error) {
		t, err := s.target(ctx, act)
		if err != nil {
			return change{}, err
		}
		var open bool
		if text, open, err = s.carryOut(ctx, a, act, t, audit); err != nil {
			return change{open: open}, err
		}
		return change{affected: 1, outcome: text}, nil
	})
	return text, err
}

// unagreed asks for a missing agreement before anything is written down: as with a change of many, who does not agree leaves no row in the audit.
func (s *Service) unagreed(ctx context.Context, a Actor, act Action) error {
	asks := act.Verb == VerbRestore && !act.Overtaking
	if may := a.may(act.Verb) == nil; !asks || !may {
		return nil
	}
	_, err := s.target(ctx, act)
	if CodeOf(err) != CodeUnconfirmed {
		err = nil // what else is wrong is found again, and written down
	}
	return err
}

// target finds the event, and refuses what cannot be done to it where it is.
func (s *Service) target(ctx context.Context, act Action) (Target, error) {
	if !act.ofEvent() {
		return Target{Topic: act.Topic, PartitionKey: act.PartitionKey}, nil
	}
	found, _, err := s.store.Find(ctx, []Ref{act.Event})
	if err != nil {
		return Target{}, err
	}
	if len(found) == 0 {
		return Target{}, Refuse(CodeNotFound, "there is no event %s, neither in the table nor among the dead ones", act.Event)
	}
	t := found[0]
	if act.Verb == VerbRestore && t.State != StateDead {
		return Target{}, act.refuse(CodeConflict, "it is not dead but %s, in its place in the table", t.State)
	}
	if why := t.refused(act.Verb); why != "" {
		return Target{}, act.refuse(CodeConflict, "%s", why)
	}
	return t, s.mayOvertake(ctx, act, t)
}

// mayOvertake asks for an agreement where a restored event would come behind newer ones, or was sent to a dead-letter topic.
func (s *Service) mayOvertake(ctx context.Context, act Action, t Target) error {
	if act.Verb != VerbRestore || act.Overtaking {
		return nil
	}
	overtaken, err := s.store.Overtaken(ctx, t)
	if err != nil {
		return err
	}
	var notes []string
	var found OvertakenEvents
	switch overtaken {
	case OvertakenYes:
		notes = append(notes, "newer events of its key are published already: restored, it comes behind them")
		found = OvertakenEvents{Events: 1, Keys: 1}
	case OvertakenRowsGone:
		notes = append(notes, "whether newer events of its key are published already is not known: settled rows of its key may have been deleted. Restored, it comes behind those that are")
		found = OvertakenEvents{Unknown: 1, RowsGone: 1}
	case OvertakenUnknown:
		notes = append(notes, "newer events of its key may be published already; there are too many newer rows to look through. Restored, it would come behind them")
		found = OvertakenEvents{Unknown: 1}
	}
	notes = append(notes, letterNotes(t)...)
	if len(notes) == 0 {
		return nil
	}
	if again := t.meetsAgain(act.Verb); again != "" {
		notes = append(notes, again)
	}
	plan := Plan{Count: 1, Topics: []TopicCount{{t.Topic, 1}}, Overtaken: &found, Notes: notes}
	return &Error{Code: CodeUnconfirmed, Text: "event " + act.Event.String() + ": " + strings.Join(notes, "; "), Err: &Unconfirmed{plan}}
}

// letterNotes says which of the dead events are in dead-letter topics.
func letterNotes(events ...Target) []string {
	sent := map[string]int64{}
	for _, t := range events {
		if t.Letter != "" {
			sent[t.Letter]++
		}
	}
	return sentNotes(sent)
}

// sentNotes are of events that were sent to dead-letter topics, by topic: whoever reads those has them, and may have handled them.
func sentNotes(sent map[string]int64) []string {
	var notes []string
	for _, topic := range slices.Sorted(maps.Keys(sent)) {
		notes = append(notes, fmt.Sprintf("the dead-letter topic %s keeps what was sent there (%d of these events): whoever handles it gets it twice", topic, sent[topic]))
	}
	return notes
}

// carryOut asks, and waits for the answer. open tells that the request could not be taken back, so that it may still be carried out.
func (s *Service) carryOut(ctx context.Context, a Actor, act Action, t Target, audit int64) (text string, open bool, err error) {
	id, err := s.ask(ctx, a, act, t, audit)
	if err != nil {
		return "", false, err
	}
	wait := cmp.Or(act.Wait, DefaultWait)
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answer, err := s.store.Answer(within, id)
	if err != nil {
		timedOut := ctx.Err() == nil && (within.Err() != nil || errors.Is(err, context.DeadlineExceeded))
		if timedOut {
			err = s.late(ctx, id, wait)
		}
		answer, open, err = s.takeBack(ctx, a, act, id, err)
	}
	switch {
	case err != nil:
		return "", open, err
	case answer.Problem != "":
		return "", false, act.refuse(CodeConflict, "%s", answer.Problem)
	}
	if again := t.meetsAgain(act.Verb); again != "" {
		answer.Text += "; " + again
	}
	return answer.Text, false, nil
}

// late says that a request was not carried out in time, and why, if that can be known.
func (s *Service) late(ctx context.Context, request int64, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.LookTimeout)
	defer cancel()
	why, err := s.store.Delay(ctx, request)
	if err != nil {
		return fmt.Errorf("not carried out within %s; why is not known: %w", wait, err)
	}
	return fmt.Errorf("not carried out within %s: %s", wait, why)
}

// ask is not interrupted by the end of ctx: the request might be written already, and nobody would know which one to take back.
func (s *Service) ask(ctx context.Context, a Actor, act Action, t Target, audit int64) (request int64, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	return s.store.Ask(ctx, audit, act.Verb, t, a.Name, act.Reason)
}

// meetsAgain warns of an event that comes back with what it was given up for.
func (t Target) meetsAgain(v Verb) string {
	if v != VerbRestore || !t.failed() {
		return ""
	}
	return "it had failed with " + t.Code + ": if the cause is still there it fails again, and by the policy of its relay it stops its key or is given up again"
}

// takeBack withdraws a request that nobody waits for any more, so that it surprises nobody later. It may be too late: then the answer counts.
func (s *Service) takeBack(ctx context.Context, a Actor, act Action, id int64, cause error) (answer Answer, open bool, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	answer, withdrawn, err := s.store.Withdraw(ctx, id, a.Name)
	switch {
	case err != nil:
		return Answer{}, true, &Error{
			Code: CodeUnavailable, Err: errors.Join(cause, err),
			Text: fmt.Sprintf("%s: request %d could not be taken back, and may still be carried out; outbox audit tells what becomes of it", act, id),
		}
	case withdrawn:
		return Answer{}, false, &Error{Code: CodeUnavailable, Text: fmt.Sprintf("%s: the request was taken back, and nothing was changed", act), Err: cause}
	}
	return answer, false, nil
}
