package main

import (
	"bytes"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestEveryOrderOfTheShopIsPaidAndShippedOnce(t *testing.T) {
	t.Parallel()
	r := open(t, options{Orders: 100, Rate: 500})
	if !r.sound() || r.Orders != 100 || r.Paid == 0 {
		t.Errorf("got %+v, want 100 orders, some paid, all of it sound", r)
	}
}

// Each thing that can go wrong alone is enough for the verdict.
func TestTheReportFindsWhatWentWrong(t *testing.T) {
	t.Parallel()
	good := report{Orders: 3, Paid: 2, Declined: 1, Shipped: 2, Before: 100, Taken: 40, After: 60}
	if !good.sound() {
		t.Errorf("%+v is not taken as sound", good)
	}
	for name, spoil := range map[string]func(*report){
		"an open order":   func(r *report) { r.Open = 1 },
		"paid twice":      func(r *report) { r.PaidTwice = 1 },
		"shipped twice":   func(r *report) { r.ShippedTwice = 1 },
		"told twice":      func(r *report) { r.ToldTwice = 1 },
		"money is lost":   func(r *report) { r.After-- },
		"not shipped":     func(r *report) { r.Shipped-- },
		"not paid":        func(r *report) { r.Paid, r.Shipped = 1, 1 },
		"services differ": func(r *report) { r.Differences = 1 },
	} {
		bad := good
		spoil(&bad)
		var out bytes.Buffer
		if bad.print(&out); bad.sound() || !strings.Contains(out.String(), "WRONG") {
			t.Errorf("%s is taken as sound", name)
		}
	}
}

func TestACommandLineThatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-orders", "0"}, {"-rate", "0"}, {"-kill", "-1s"}, {"extra"}, {"-nonsense"}} {
		var out, problems bytes.Buffer
		if code := command(args, &out, &problems); code != 2 || problems.Len() == 0 {
			t.Errorf("%q: code %d, %q", args, code, problems.String())
		}
	}
}

// A shop that waits for a process that is gone would wait for ever.
func TestAProcessThatEndsByItselfEndsTheShop(t *testing.T) {
	t.Parallel()
	o := options{Orders: 1, Rate: 1, Brokers: []string{"127.0.0.1:1"}}
	f := newFloor(&place{server: &url.URL{Scheme: "postgres", Host: "127.0.0.1:1"}, brokers: o.Brokers, shop: "none"}, o, t.Output())
	defer f.close()
	if err := f.start("no-such-service"); err != nil {
		t.Fatal(err)
	}
	if err := <-f.fallen; !strings.Contains(err.Error(), "no-such-service") {
		t.Errorf("got %v", err)
	}
}

// Several processes may be stuck at the end, and none may be left behind.
func TestProcessesThatDoNotEndAreKilled(t *testing.T) {
	t.Parallel()
	f := newFloor(&place{}, options{}, t.Output())
	f.patience = 100 * time.Millisecond
	for _, name := range []string{"one", "other"} {
		cmd := exec.Command("sleep", "600")
		input, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		f.parts[name] = &process{cmd, input, make(chan struct{}), make(chan struct{})}
		go f.watch(name, f.parts[name])
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		f.close()
	}()
	select {
	case <-closed:
	case <-time.After(2 * time.Minute):
		t.Fatal("the shop does not close")
	}
}
