package inbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAKeyThatHangsLeavesRoomForAllOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{handle: func(ctx context.Context, r *Record) error {
			if string(r.Key) != "a" {
				return nil
			}
			select {
			case <-time.After(30 * time.Second):
			case <-ctx.Done():
			}
			return errors.New("not handled within 30s")
		}}
		r, stop := running(t, d, &shelf{}, RunnerConfig{MaxUncommitted: 20})
		defer stop()
		second := Partition{"shop.order", 1}
		r.Assign([]Partition{second})
		r.Take(records(first, "aaaaaaaaaaaaaaa"))
		began, longest := time.Now(), time.Duration(0)
		for offset := int64(0); time.Since(began) < 10*time.Minute; offset++ {
			asked := time.Now()
			r.AwaitRoom()
			longest = max(longest, time.Since(asked))
			r.Take([]*Record{{Topic: second.Topic, Partition: 1, Offset: offset, Key: []byte("b")}})
			sleep(500 * time.Millisecond)
		}
		if longest > slowAfter {
			t.Errorf("the others stood still for %s", longest)
		}
		r.Revoke(t.Context(), []Partition{first, second})
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.moving != 0 || r.bytes != 0 {
			t.Errorf("%d move, %d bytes are held of nothing", r.moving, r.bytes)
		}
	})
}

func TestNoMoreBytesAreTakenThanMayBeHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		healed := make(chan struct{})
		d, s := &desk{handle: func(_ context.Context, r *Record) error {
			if string(r.Key) == "a" {
				<-healed
			}
			return nil
		}}, &shelf{}
		r, stop := running(t, d, s, RunnerConfig{MaxUncommittedBytes: 1000})
		defer stop()
		second := Partition{"shop.order", 1}
		r.Assign([]Partition{second})
		of := func(p Partition, keys string) []*Record {
			all := records(p, keys)
			for _, record := range all {
				record.Value = make([]byte, 399)
			}
			return all
		}
		r.Take(of(first, "aa"))
		synctest.Wait()
		if s.isPaused(first) {
			t.Error("paused with 800 bytes of 1000")
		}
		r.Take(of(first, "aaa")[2:])
		r.Take(of(second, "b"))
		if !s.isPaused(first) || !s.isPaused(second) {
			t.Errorf("paused %v and %v with 1600 bytes of 1000", s.isPaused(first), s.isPaused(second))
		}
		synctest.Wait()
		if !s.isPaused(first) || s.isPaused(second) {
			t.Errorf("paused %v and %v, want the one alone whose key is stuck", s.isPaused(first), s.isPaused(second))
		}
		close(healed)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if s.isPaused(first) || r.bytes != 0 || r.paused != 0 {
			t.Errorf("all is settled, and paused %v, %d bytes held", s.isPaused(first), r.bytes)
		}
	})
}

func TestARetryTopicsRecordIsNeverHeldBackForLongerThanItsTopicSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		retry := Partition{"shop.order-retry-1000", 0}
		d := &desk{}
		r, stop := running(t, d, &shelf{}, RunnerConfig{Retry: Retry{Topics: []time.Duration{time.Second}, GiveUp: DeadLetter}})
		defer stop()
		r.Assign([]Partition{retry})
		in := records(retry, "aa")
		for _, record := range in {
			record.Headers = []Header{{HeaderConsumer, []byte("desk")}, {HeaderNotBefore, []byte(stamp(time.Now().Add(time.Hour)))}}
		}
		r.Take(in)
		sleep(900 * time.Millisecond)
		if got := d.done(); len(got) != 0 {
			t.Errorf("handled %v before their time", got)
		}
		sleep(200 * time.Millisecond)
		if got := d.done(); len(got) != 2 {
			t.Errorf("handled %v, want both after the topic's second", got)
		}
	})
}

// A rebalance may come while a stop lets handlers end.
func TestARevokeDuringAStopWaitsForItsCommit(t *testing.T) {
	t.Parallel()
	for name, letGo := range map[string]func(*Runner, context.Context){
		"revoked": func(r *Runner, ctx context.Context) { r.Revoke(ctx, []Partition{first}) },
		"lost":    func(r *Runner, _ context.Context) { r.Lose([]Partition{first}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			d, s := &desk{handle: func(context.Context, *Record) error {
				<-time.After(6 * time.Second)
				return nil
			}}, &shelf{}
			r, stop := running(t, d, s, RunnerConfig{})
			r.Take(records(first, "a"))
			synctest.Wait()
			stopped := make(chan struct{})
			go func() { defer close(stopped); stop() }()
			sleep(time.Second)
			letGo(r, t.Context())
			if committed := s.upTo(first); committed != 1 && name == "revoked" {
				t.Errorf("%s: it returned with %d committed, want 1", name, committed)
			}
			if err := s.Commit(t.Context(), map[Partition]int64{first: 20}); err != nil { // the next owner's
				t.Fatal(err)
			}
			<-stopped
			if committed := s.upTo(first); committed != 20 {
				t.Errorf("%s: a late commit has taken the offset back to %d", name, committed)
			}
		})
	}
}
