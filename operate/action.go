package operate

import (
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
	// Event names the event; or Topic and PartitionKey the key, with a zero Event.
	Event               Ref
	Topic, PartitionKey string
	// Reason is needed for skip and dead.
	Reason string
	// Wait is how long to wait until it is carried out; 0 is [DefaultWait]. The request stays when that is over.
	Wait time.Duration
	// Overtaking agrees to restore an event though newer ones of its key are published, or may be, or it was sent to a dead-letter topic.
	Overtaking bool
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
	case !act.ofEvent() && act.Topic == "":
		return Refuse(CodeInvalid, "%s: which key: the topic is missing", act.Verb)
	case verb.reason && act.Reason == "":
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
	var text string
	err := s.audited(ctx, a, act.Verb, actionFilter{act.Event, act.Topic, act.PartitionKey}, act.Reason, func() (change, error) {
		t, err := s.target(ctx, act)
		if err == nil {
			text, err = s.carryOut(ctx, a, act, t)
		}
		if err != nil {
			return change{}, err
		}
		return change{affected: 1, outcome: text}, nil
	})
	return text, err
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
		return Target{}, Refuse(CodeConflict, "event %s is not dead: it is %s, in its place in the table", act.Event, t.State)
	}
	if why := t.refused(act.Verb); why != "" {
		return Target{}, Refuse(CodeConflict, "%s event %s: %s", act.Verb, act.Event, why)
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
	switch overtaken {
	case OvertakenYes:
		notes = append(notes, "newer events of its key are published already: restored, it comes behind them")
	case OvertakenUnknown:
		notes = append(notes, "newer events of its key may be published already; there are too many newer rows to look through. Restored, it would come behind them")
	}
	notes = append(notes, letterNotes(t)...)
	if len(notes) == 0 {
		return nil
	}
	return &Error{Code: CodeUnconfirmed, Text: "event " + act.Event.String() + ": " + strings.Join(notes, "; "), Err: &Unconfirmed{Plan{Count: 1, Topics: []TopicCount{{t.Topic, 1}}, Notes: notes}}}
}

// letterNotes says which of the dead events are in dead-letter topics: whoever reads those has them, and may have handled them.
func letterNotes(events ...Target) []string {
	sent := map[string]int{}
	for _, t := range events {
		if t.Letter != "" {
			sent[t.Letter]++
		}
	}
	var notes []string
	for _, topic := range slices.Sorted(maps.Keys(sent)) {
		notes = append(notes, fmt.Sprintf("the dead-letter topic %s keeps what was sent there (%d of these events): whoever handles it gets it twice", topic, sent[topic]))
	}
	return notes
}

func (s *Service) carryOut(ctx context.Context, a Actor, act Action, t Target) (string, error) {
	id, err := s.store.Ask(ctx, act.Verb, t, a.Name, act.Reason)
	if err != nil {
		return "", err
	}
	wait := act.Wait
	if wait == 0 {
		wait = DefaultWait
	}
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answer, err := s.store.Answer(within, id)
	if err != nil && (within.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		return "", &Error{Code: CodeUnavailable, Text: "not carried out yet", Err: err}
	}
	if err != nil {
		return "", err
	}
	if answer.Problem != "" {
		return "", Refuse(CodeConflict, "%s", answer.Problem)
	}
	return answer.Text, nil
}
