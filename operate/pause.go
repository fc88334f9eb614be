package operate

import (
	"context"
	"fmt"
)

// The scopes of a pause.
const (
	ScopeSource = "source"
	ScopeTopic  = "topic"
	ScopeKey    = "key"
)

// Scope is what is paused: the whole source, one topic, or one key.
type Scope struct {
	// Kind is source, topic or key.
	Kind         string `json:"scope"`
	Topic        string `json:"topic,omitempty"`
	PartitionKey string `json:"partition_key,omitempty"`
}

func (p Scope) String() string {
	switch p.Kind {
	case ScopeTopic:
		return fmt.Sprintf("topic %q", p.Topic)
	case ScopeKey:
		return fmt.Sprintf("key %q of topic %q", p.PartitionKey, p.Topic)
	}
	return "the source"
}

func (p Scope) validate() error {
	switch {
	case p.Kind != ScopeSource && p.Kind != ScopeTopic && p.Kind != ScopeKey:
		return Refuse(CodeInvalid, "scope %q: want source, topic or key", p.Kind)
	case p.Kind == ScopeSource && (p.Topic != "" || p.PartitionKey != ""), p.Kind == ScopeTopic && p.PartitionKey != "":
		return Refuse(CodeInvalid, "a pause of the %s names no more than that", p.Kind)
	case p.Kind != ScopeSource && p.Topic == "":
		return Refuse(CodeInvalid, "which %s: the topic is missing", p.Kind)
	case !storable(p.Topic) || !storable(p.PartitionKey):
		return Refuse(CodeInvalid, "no topic or key has such a name: it is no UTF-8, or holds a NUL")
	}
	return nil
}

// Pause stops publishing of what is named, within a second, until somebody resumes it, whatever is restarted in between. What is on its way to Kafka
// arrives. It tells whether that was not paused already; then the first pause, with its reason, stays.
func (s *Service) Pause(ctx context.Context, a Actor, what Scope, reason string) (changed bool, err error) {
	return s.changePause(ctx, a, VerbPause, what, reason, func() (bool, error) { return s.store.Pause(ctx, what, a.Name, reason) })
}

// Resume takes a pause back. It tells whether there was one.
func (s *Service) Resume(ctx context.Context, a Actor, what Scope, reason string) (changed bool, err error) {
	return s.changePause(ctx, a, VerbResume, what, reason, func() (bool, error) { return s.store.Resume(ctx, what) })
}

func (s *Service) changePause(ctx context.Context, a Actor, verb Verb, what Scope, reason string, do func() (bool, error)) (changed bool, err error) {
	if err := what.validate(); err != nil {
		return false, err
	}
	if !storable(reason) {
		return false, Refuse(CodeInvalid, "the reason is no UTF-8, or holds a NUL")
	}
	err = s.audited(ctx, a, verb, what, reason, func(int64) (change, error) {
		if changed, err = do(); err != nil || !changed {
			return change{outcome: "nothing to do"}, err
		}
		return change{affected: 1}, nil
	})
	return changed, err
}
