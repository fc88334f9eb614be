package engine

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
)

func TestALedgerHasOnlyWhatHasChangedWritten(t *testing.T) {
	t.Parallel()
	var l Ledger[string]
	steps := []struct {
		now  map[string]string
		want []Changes[string]
		err  error
	}{
		{nil, []Changes[string]{{Anew: true}}, nil},
		{nil, nil, nil},
		{map[string]string{"a": "1", "b": "1"}, []Changes[string]{{Put: []string{"1", "1"}}}, nil},
		{map[string]string{"b": "2", "c": "3"}, []Changes[string]{{Put: []string{"2", "3"}, Gone: []string{"a"}}}, nil},
		{map[string]string{"b": "2"}, []Changes[string]{{Gone: []string{"c"}}}, errors.New("away")},
		{map[string]string{"b": "2"}, []Changes[string]{{Anew: true, Put: []string{"2"}}}, nil},
	}
	for i, s := range steps {
		var got []Changes[string]
		err := l.Write(s.now, func(c Changes[string]) error {
			if len(c.Gone) == 0 {
				c.Gone = nil
			}
			got = append(got, c)
			return s.err
		})
		if !errors.Is(err, s.err) || !reflect.DeepEqual(got, s.want) {
			t.Errorf("step %d: %v, written %+v, want %+v", i, err, got, s.want)
		}
	}
}

func TestALedgerWritesMuchInSeveralPartsAndOneMoreAlone(t *testing.T) {
	t.Parallel()
	var l Ledger[int]
	now := map[string]int{}
	write := func() (calls, names int) {
		t.Helper()
		err := l.Write(now, func(c Changes[int]) error {
			if n := len(c.Put) + len(c.Gone); n > LedgerChanges {
				t.Errorf("%d changes at once, want %d at most", n, LedgerChanges)
			}
			calls, names = calls+1, names+len(c.Put)+len(c.Gone)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return calls, names
	}
	const all = 100 * LedgerChanges
	for i := range all {
		now[fmt.Sprint(i)] = i
	}
	if calls, names := write(); calls != 100 || names != all {
		t.Errorf("%d names in %d parts, want %d in 100", names, calls, all)
	}
	now["one more"] = 1
	delete(now, "17")
	if calls, names := write(); calls != 1 || names != 2 {
		t.Errorf("%d names in %d parts, want 2 in one", names, calls)
	}
}
