package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestWhatToMeasureMayStandBeforeOrBehindTheFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, what string
		pairs      int
	}{{"drain", "drain", 5}, {"drain --pairs 7", "drain", 7}, {"--pairs 7 live", "live", 7}, {"live", "live", 5}} {
		s, err := parse(strings.Fields(c.args), io.Discard)
		if err != nil || s.what != c.what || s.pairs != c.pairs {
			t.Errorf("%s: got %s, %d pairs, %v, want %s, %d pairs", c.args, s.what, s.pairs, err, c.what, c.pairs)
		}
	}
}

func TestSmokeLeavesAloneWhatWasGiven(t *testing.T) {
	t.Parallel()
	s, err := parse(strings.Fields("drain --smoke --rows 777"), io.Discard)
	if err != nil || s.rows != 777 || s.liveFor != 2*time.Second {
		t.Errorf("got %d rows, %s, %v, want 777 rows, 2s", s.rows, s.liveFor, err)
	}
}

func TestEverythingWrongIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	_, err := parse(strings.Fields("speed --pairs 0 --rate 0"), io.Discard)
	for _, want := range []string{`"speed"`, "--pairs", "--rate"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
}

func TestASmokeTestOfEverythingLeavesOutWhatMustBeNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                 "drain live memory onekey held watermill relays takeover idle large",
		"--smoke":          "drain live memory onekey held watermill",
		"takeover --smoke": "takeover",
		"relays":           "relays",
	} {
		s, err := parse(strings.Fields(args), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range parts() {
			if s.wants(p) {
				got = append(got, p.name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
}

func TestALeaseOfARelayIsNotShorterThanItTakes(t *testing.T) {
	t.Parallel()
	if _, err := parse(strings.Fields("takeover --lease-ttl 4s"), io.Discard); err == nil || !strings.Contains(err.Error(), "--lease-ttl") {
		t.Errorf("got %v, want one that names --lease-ttl", err)
	}
	if _, err := parse(strings.Fields("large --large-rows 9000"), io.Discard); err == nil || !strings.Contains(err.Error(), "--large-rows") {
		t.Errorf("parked keys need more rows: got %v, want one that names --large-rows", err)
	}
}

func TestOnePartAtATime(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"drain", "live"}, {"--pairs", "1", "drain", "live"}} {
		if _, err := parse(args, io.Discard); err == nil || !strings.Contains(err.Error(), "live") {
			t.Errorf("%q: %v, want an error that names live", args, err)
		}
	}
	for _, args := range [][]string{{"drain", "--pairs", "1"}, {"--pairs", "1", "drain"}} {
		if s, err := parse(args, io.Discard); err != nil || s.what != "drain" {
			t.Errorf("%q: %q, %v, want drain", args, s.what, err)
		}
	}
}
