package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func spread(n int) func(int) Key {
	return func(i int) Key { return Key{"orders", fmt.Sprint(i % n)} }
}

func TestRelayPublishesWhatIsThereAndWhatComesInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insertMany(500, spread(3))
		r := w.relay(Config{}).start()
		w.untilPublished()
		w.table.insertMany(10, spread(1))
		w.untilPublished()
		r.wantStopped()
		for i := range 3 {
			seen := w.kafka.of(Key{"orders", fmt.Sprint(i)})
			for j := 1; j < len(seen); j++ {
				if seen[j] <= seen[j-1] {
					t.Fatalf("key %d: event %d after %d", i, seen[j], seen[j-1])
				}
			}
		}
		if w.kafka.size() != 510 || r.Stats().Settled != 510 || r.Stats().Published != 510 {
			t.Errorf("%d records, stats %+v; want 510 of each", w.kafka.size(), r.Stats())
		}
	})
}

func TestRelayPublishesALateCommitBeforeNewerEventsOfItsKey(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{}).start()
		open := w.table.reserve(keyA)
		w.table.insert(keyB)
		w.untilPublished()
		w.table.commit(open)
		w.table.insert(keyA)
		w.untilPublished()
		r.wantStopped()
		w.wantRecords(keyA, 1, 3)
	})
}

func TestStopSettlesWhatIsAckedWithinTheDrainTimeout(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insertMany(50, spread(10))
		r := w.relay(Config{})
		r.publisher.hold = answer.all
		r.start()
		w.until("handed over", func() bool { return r.Stats().Outstanding == 50 })
		time.AfterFunc(9*time.Second, answer.letGo)
		r.wantStopped()
		if w.table.open() != 0 || w.kafka.size() != 50 {
			t.Errorf("%d unpublished, %d records; want 0, 50", w.table.open(), w.kafka.size())
		}
	})
}

func TestStopBetweenAckAndSettleStillSettles(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insert(keyA)
		r := w.relay(Config{})
		r.source.before.set(func(ctx context.Context, op string) error {
			if op == "settle" {
				r.cancel()
				<-time.After(time.Second)
			}
			return ctx.Err()
		})
		r.start()
		if err := <-r.ran; err != nil {
			t.Errorf("run: %v", err)
		}
		if w.table.open() != 0 {
			t.Error("the event is in Kafka and not settled")
		}
	})
}

func TestStopEndsInTimeAndSaysWhatItLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		answer := newHeld()
		w.table.insertMany(10, spread(2))
		r := w.relay(Config{})
		r.publisher.hold = answer.of(Key{"orders", "0"})
		r.start()
		w.until("the other key published", func() bool { return w.table.open() == 5 })
		began := time.Now()
		var left *DrainError
		if err := r.stop(); !errors.As(err, &left) || left.Outstanding != 5 || left.Unsettled != 0 {
			t.Errorf("run: %v, want 5 outstanding", err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("the stop took %s, want the drain timeout", took)
		}
		if w.table.open() != 5 {
			t.Errorf("%d unpublished, want 5", w.table.open())
		}
		if _, leased := w.table.leased(); !leased {
			t.Error("the lease was handed back although a produce may still be on its way")
		}
	})
}

func TestStopEndsWhileTheSettleHangs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.insert(keyA)
		r := w.relay(Config{})
		r.source.before.set(func(ctx context.Context, op string) error {
			if op == "settle" || op == "requests" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		r.start()
		w.until("acked", func() bool { return r.Stats().Published == 1 })
		began := time.Now()
		var left *DrainError
		if err := r.stop(); !errors.As(err, &left) || left.Unsettled != 1 {
			t.Errorf("run: %v, want 1 unsettled", err)
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the stop took %s", took)
		}
	})
}

func TestStopEndsAnOpeningThatHangs(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{})
		r.publisher.onOpen = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		r.start()
		after(time.Second)
		began := time.Now()
		r.wantStopped()
		if took := time.Since(began); took > 0 {
			t.Errorf("the stop took %s", took)
		}
	})
}

func TestStopHandsTheLeaseToTheNextRelayAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.relay(Config{Name: "first"}).start()
		w.until("first leads", func() bool { return first.Stats().Lanes > 0 })
		second := w.relay(Config{Name: "second"}).start()
		w.until("second waits", func() bool { return second.Stats().Waiting == "first" })
		began := time.Now()
		first.wantStopped()
		w.until("second leads", func() bool { return second.Stats().Lanes > 0 })
		if took := time.Since(began); took >= time.Second {
			t.Errorf("the hand-over took %s, want under a second", took)
		}
		w.table.insert(keyA)
		w.untilPublished()
		second.wantStopped()
	})
}

func TestStopEndsAWaitingRelay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.steal(time.Now().Add(time.Hour))
		r := w.relay(Config{}).start()
		w.until("waiting", func() bool { return r.Stats().Waiting == "thief" })
		r.wantStopped()
	})
}

func TestStartGivesUpAfterItsTimeout(t *testing.T) {
	for _, op := range []string{"open", "claim"} {
		for name, before := range map[string]func(ctx context.Context, called string) error{
			"refused": func(_ context.Context, called string) error {
				if called == op {
					return errBroken
				}
				return nil
			},
			"hangs": func(ctx context.Context, called string) error {
				if called == op {
					<-ctx.Done()
				}
				return ctx.Err()
			},
		} {
			t.Run(op+" "+name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					r := w.relay(Config{StartTimeout: 10 * time.Second})
					r.source.before.set(before)
					began := time.Now()
					err := <-r.start().ran
					if took := time.Since(began); err == nil || took < 10*time.Second || took > 15*time.Second {
						t.Errorf("run: %v after %s, want an error after 10s", err, took)
					}
				})
			})
		}
	}
}

// Once the time is nearly over the attempts are cut off: what they say is not what is wrong.
func TestTheReasonOfAStartThatFailsIsTheFault(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{StartTimeout: 10 * time.Second})
		refused := errors.New("connection refused")
		r.publisher.onOpen = func(ctx context.Context) error {
			select {
			case <-time.After(3 * time.Second):
				return refused
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		began := time.Now()
		err := <-r.start().ran
		if !errors.Is(err, refused) {
			t.Errorf("run: %v, want the reason %v", err, refused)
		}
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("given up after %s, want 10s", took)
		}
	})
}

func TestHeldTopicsAreWrittenDownAndTakenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kafka.setMissing("orders", true)
		w.table.insert(keyA)
		r := w.relay(Config{})
		r.start()
		held := func() []HeldTopic {
			w.table.mu.Lock()
			defer w.table.mu.Unlock()
			return w.table.held
		}
		w.until("written down", func() bool { return len(held()) == 1 && held()[0].Topic == "orders" && held()[0].Code != "" })
		w.kafka.setMissing("orders", false)
		w.untilPublished()
		w.until("taken back", func() bool { return len(held()) == 0 })
		r.wantStopped()
	})
}

func TestConfigurationErrorEndsTheRun(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{})
		r.source.before.set(func(context.Context, string) error { return fmt.Errorf("never migrated: %w", ErrConfiguration) })
		if err := <-r.start().ran; !errors.Is(err, ErrConfiguration) {
			t.Errorf("run: %v, want %v", err, ErrConfiguration)
		}
	})
}

// Its turn may come at night.
func TestARelayThatCouldNotPublishSaysSoWhileAnotherOneWorks(t *testing.T) {
	inWorld(t, func(w *world) {
		working := w.relay(Config{Name: "working"})
		working.start()
		w.until("leading", func() bool { return working.Stats().Lanes > 0 })
		broken := w.relay(Config{Name: "broken"})
		broken.publisher.onOpen = func(context.Context) error { return fmt.Errorf("wrong password: %w", ErrConfiguration) }
		if err := <-broken.start().ran; !errors.Is(err, ErrConfiguration) {
			t.Errorf("run: %v, want %v", err, ErrConfiguration)
		}
		working.wantStopped()
	})
}

func TestConfigurationErrorOfAWorkingRelayIsWaitedOut(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.relay(Config{})
		r.start()
		w.until("leading", func() bool { return r.Stats().Lanes > 0 })
		r.source.before.set(func(context.Context, string) error { return fmt.Errorf("password changed: %w", ErrConfiguration) })
		w.until("interrupted", func() bool { return r.Stats().LastError != nil })
		r.source.before.set(nil)
		w.table.insert(keyA)
		w.untilPublished()
		r.wantStopped()
	})
}

func TestMissingTopicBeforeTheFirstPublicationEndsTheRun(t *testing.T) {
	inWorld(t, func(w *world) {
		w.table.firstPublished = time.Time{}
		w.kafka.setMissing("orders", true)
		w.table.insert(keyA)
		began := time.Now()
		err := <-w.relay(Config{TopicCheckInterval: time.Hour}).start().ran
		if took := time.Since(began); ClassOf(err) != ClassTopic || !strings.Contains(err.Error(), "orders") || took < 5*time.Second || took > 6*time.Second {
			t.Errorf("run: %v after %s, want the topic's error when it had time to appear", err, took)
		}
	})
}

// Brokers learn of a topic that was just made, or that they make by themselves, a moment later.
func TestTopicThatIsMadeAMomentLaterEndsNoRun(t *testing.T) {
	for name, c := range map[string]Config{
		"before the first publication": {TopicCheckInterval: time.Hour},
		"named in the configuration":   {TopicCheckInterval: time.Hour, Topics: []string{"orders"}},
		"once":                         {TopicCheckInterval: time.Hour, Once: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.table.firstPublished = time.Time{}
				w.kafka.setMissing("orders", true)
				w.table.insertMany(10, func(int) Key { return keyA })
				time.AfterFunc(4*time.Second, func() { w.kafka.setMissing("orders", false) })
				r := w.relay(c)
				r.start()
				if c.Once {
					if err := <-r.ran; err != nil {
						t.Errorf("run: %v", err)
					}
				} else {
					select {
					case <-r.ended:
						t.Fatalf("run: %v", <-r.ran)
					case <-time.After(10 * time.Second):
					}
					r.wantStopped()
				}
				if n := w.table.open(); n != 0 {
					t.Errorf("%d events are unpublished", n)
				}
			})
		})
	}
}

func TestTopicOfTheConfigurationMustExist(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kafka.setMissing("orders", true)
		if err := <-w.relay(Config{Topics: []string{"orders", "payments"}}).start().ran; err == nil {
			t.Error("run: nil, want the missing topic")
		}
	})
}

func TestMissingTopicWaitsAndTheOthersGoOn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kafka.setMissing("orders", true)
		r := w.relay(Config{}).start()
		for range 50 {
			w.table.insert(keyA)
			w.table.insert(keyC)
		}
		w.until("the other topic published", func() bool { return len(w.kafka.of(keyC)) == 50 })
		if r.Stats().HeldTopics["orders"] == nil {
			t.Errorf("stats %+v do not name the topic", r.Stats())
		}
		after(time.Minute)
		w.kafka.setMissing("orders", false)
		w.untilPublished()
		r.wantStopped()
		if got := w.kafka.of(keyA); len(got) != 50 || got[0] != 1 || got[49] != 99 {
			t.Errorf("records of the topic: %v", got)
		}
	})
}

func TestStatsMayBeAskedForAtAnyTime(t *testing.T) {
	t.Parallel()
	w := &world{t: t, table: newFakeTable(), kafka: newFakeKafka()}
	w.table.insertMany(2000, spread(20))
	r := w.relay(Config{Once: true})
	r.Stats()
	r.source.before.set(failing("read", 1))
	r.start()
	for {
		select {
		case err := <-r.ran:
			if s := r.Stats(); err != nil || s.Published != 2000 || s.InFlight != 0 || s.Lanes > 0 || s.LastError != nil {
				t.Errorf("run: %v; stats %+v, want 2000 published and nothing in flight", err, s)
			}
			return
		default:
			r.Stats()
		}
	}
}
