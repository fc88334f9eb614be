package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outbox-relay/outbox/internal/engine"
	"github.com/outbox-relay/outbox/internal/topicname"
)

// housekeep decides on failed events, reads those of gained lanes, frees those that wait for nothing any more, asks for missing topics, carries out what operators request, has the source watch itself, says when the brokers fall silent, and asks
// them whether they are there while there is nothing to publish. It works until stop or work
// ends, then decides on what is left under finish.
func (t *term) housekeep(stop, work, finish context.Context) error {
	topics := time.NewTicker(t.cfg.TopicCheckInterval)
	defer topics.Stop()
	notes := time.NewTicker(t.cfg.LookInterval)
	defer notes.Stop()
	watch := time.NewTicker(watchInterval)
	defer watch.Stop()
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(work, cancel)()
	silent := false
	held := heldNote{term: t}
	probe := prober{term: t}
	for {
		var err error
		select {
		case <-ctx.Done():
			<-stop.Done()
			err = errors.Join(t.decideRest(finish), t.buryLocked(finish), held.write(finish))
			t.lines.close(finish)
			return err
		case <-t.toPark:
			err = t.decideFailed(finish)
		case <-topics.C:
			t.checkTopics(ctx)
		case <-watch.C:
			t.watch(ctx)
		case <-t.toGain:
			err = t.gain(ctx)
		case <-t.requested:
			err = t.carryOut(ctx)
		case <-t.toFree:
			err = t.freeFollowers(ctx)
		case <-notes.C:
			silent = t.noteSilence(silent)
			probe.ask(ctx)
			t.lines.tick(ctx)
			t.letGo()
			t.postUnsent()
			if t.mayAppear() {
				t.checkTopics(ctx)
			}
			err = errors.Join(t.tryAgain(ctx), t.buryLocked(finish), t.freeFollowers(ctx), held.write(ctx))
		}
		if err != nil && ctx.Err() == nil {
			t.lines.close(finish)
			return err
		}
	}
}

// watchInterval is how often a Watcher looks.
const watchInterval = time.Minute

// watchTimeout bounds a look: keys to be parked wait for it.
const watchTimeout = 5 * time.Second

func (t *term) watch(ctx context.Context) {
	w, ok := t.source.(Watcher)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	if err := w.Watch(ctx); err != nil {
		t.cfg.Logger.Debug("watch the source", "error", err)
	}
}

// heldNote is what the database says of held topics.
type heldNote struct {
	*term
	// ledger is of this term: an earlier one may have left something.
	ledger engine.Ledger[HeldTopic]
}

// write writes down which topics are held, as far as that has changed.
func (n *heldNote) write(ctx context.Context) error {
	held := map[string]HeldTopic{}
	for name, err := range n.gate.topicErrors() {
		code, reason := ReasonOf(err)
		held[name] = HeldTopic{Topic: name, Code: code, Reason: reason}
	}
	err := n.ledger.Write(held, func(c engine.Changes[HeldTopic]) error {
		return n.source.HoldTopics(ctx, n.owner, HeldChange{Anew: c.Anew, Held: c.Put, Released: c.Gone})
	})
	if err != nil {
		return fmt.Errorf("write down the held topics: %w", err)
	}
	return nil
}

// gain hands lanes that were claimed to the gate. What the owner before has parked is read first: nothing of those keys may go out.
func (t *term) gain(ctx context.Context) error {
	t.mu.Lock()
	lanes := slices.Clone(t.gained)
	t.mu.Unlock()
	if len(lanes) == 0 {
		return nil
	}
	t.gate.forget(lanes)
	if err := errors.Join(t.readParked(ctx, lanes), t.readFailing(ctx, lanes), t.learnAnew(ctx)); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	lanes = slices.DeleteFunc(lanes, func(l int32) bool { return !slices.Contains(t.gained, l) })
	t.gained = slices.DeleteFunc(t.gained, func(l int32) bool { return slices.Contains(lanes, l) })
	t.gate.gain(lanes)
	t.freeSoon()
	return nil
}

// lanesFree tells that there are lanes which neither this relay nor another one has, as far as is known.
func (t *term) lanesFree() bool {
	return len(t.keeper.current().Lanes) < t.info.Lanes && t.free.Load() != 0
}

// gaining tells that lanes were claimed which the gate does not have yet.
func (t *term) gaining() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.gained) > 0
}

// checkTopics releases the held topics that are in order again.
func (t *term) checkTopics(ctx context.Context) {
	held := slices.Sorted(maps.Keys(t.gate.topicErrors()))
	for _, portion := range t.rounds.take(held, t.cfg.now(), t.cfg.TopicCheckInterval) {
		if !t.checkPortion(ctx, portion) {
			return
		}
	}
	if n := t.ordered.due(t.cfg.now()); n > 0 {
		t.cfg.Logger.Info("more topics in order again", "topics", n)
	}
}

// checkPortion tells whether the brokers have answered.
func (t *term) checkPortion(ctx context.Context, names []string) bool {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.LeaseTTL)
	defer cancel()
	found, err := t.publisher.CheckTopics(ctx, names)
	if err != nil {
		return false
	}
	for _, name := range names {
		if found[name] == nil && t.gate.topicReady(name) && t.ordered.allow(t.cfg.now()) {
			t.cfg.Logger.Info("topic in order again", "topic", engine.Short(name))
		}
	}
	return true
}

// lookAgain lets the publisher look at the topics of keys that go on, and at their dead-letter topics: an operator has most likely changed something about them. An
// outage of the brokers is no reason to keep the keys.
func (t *term) lookAgain(ctx context.Context, done Carried) {
	topics := map[string]struct{}{}
	for _, keys := range [][]Key{done.Released, done.Changed} {
		for _, key := range keys {
			topics[key.Topic] = struct{}{}
			if letters := t.cfg.policyOf(key.Topic).letterTopic(key.Topic); topicname.Check(letters) == nil {
				topics[letters] = struct{}{}
			}
		}
	}
	if len(topics) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, t.cfg.LeaseTTL)
	defer cancel()
	if _, err := t.publisher.CheckTopics(ctx, slices.Sorted(maps.Keys(topics))); err != nil {
		t.cfg.Logger.Debug("look at the topics of released keys", "error", err)
	}
}

// noteSilence logs when nothing was acknowledged for a while, once, and when that is over.
func (t *term) noteSilence(before bool) (silent bool) {
	silent = t.gate.silentFor() >= t.cfg.StallTimeout
	if silent && !before {
		_, outstanding := t.gate.load()
		t.cfg.Logger.Error("Kafka acknowledges nothing", "outstanding", outstanding, "for", t.gate.silentFor().Round(time.Second).String(),
			"note", "events wait and are not lost; are the brokers reachable, and enough replicas in sync?")
	}
	if before && !silent {
		t.cfg.Logger.Info("Kafka acknowledges again")
	}
	return silent
}
