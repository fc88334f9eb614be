package config

import (
	"errors"
	"fmt"
	"testing"
)

func TestOnlyWhatStandsWhollyOnTheCommandLineIsTyped(t *testing.T) {
	t.Parallel()
	typed, other := Wrong(true, errors.Join(errors.New("a"), errors.New("b"))), errors.New("c")
	for i, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {other, false}, {typed, true}, {Wrong(true, nil), false}, {Wrong(false, other), false}, {fmt.Errorf("x: %w", typed), true},
		{errors.Join(typed, typed), true}, {errors.Join(typed, other), false}, {fmt.Errorf("x: %w", errors.Join(other, typed)), false}, {errors.Join(errors.Join(typed), typed), true},
	} {
		if got := Typed(c.err); got != c.want {
			t.Errorf("%d: %v is typed: %v, want %v", i, c.err, got, c.want)
		}
	}
}
