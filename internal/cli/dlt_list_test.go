package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/operate"
)

func TestAListOfLettersSaysWhoGaveThemUpAndOfHowManyEventsTheyAre(t *testing.T) {
	t.Parallel()
	letter := func(offset int64, consumer, id string) operate.DeadLetter {
		return operate.DeadLetter{LetterRef: operate.LetterRef{Topic: "shop.order-dlt", Offset: offset}, Consumer: consumer, EventID: id, Error: `no account "17"`}
	}
	for name, c := range map[string]struct {
		letters []operate.DeadLetter
		has     []string
		lacks   string
	}{
		"two groups":  {[]operate.DeadLetter{letter(0, "billing", "e-1"), letter(1, "search", "e-1"), letter(2, "", "")}, []string{"CONSUMER", "billing", "search", "\n3 letters, 2 events\n", `no account "17" `}, `\"`},
		"no consumer": {[]operate.DeadLetter{letter(0, "", "e-1")}, []string{"EVENT TYPE"}, "CONSUMER"},
		"one each":    {[]operate.DeadLetter{letter(0, "billing", "e-1"), letter(1, "billing", "e-2")}, []string{"billing"}, "events"},
	} {
		var out bytes.Buffer
		a := &app{stdout: &out, now: time.Now}
		if err := a.printLetters(operate.LetterPage{Letters: c.letters}, shown{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.has {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is not in\n%s", name, want, out.String())
			}
		}
		if strings.Contains(out.String(), c.lacks) {
			t.Errorf("%s: %q is in\n%s", name, c.lacks, out.String())
		}
	}
}

func TestALetterIsShownWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("no such account, ", 50)
	var out bytes.Buffer
	a := &app{stdout: &out, now: time.Now}
	l := &operate.LetterRecord{DeadLetter: operate.DeadLetter{Form: operate.LetterOfConsumer, Error: long}, Headers: []operate.LetterHeader{{Key: "trace", Value: operate.Bytes(long)}}}
	if err := a.printLetter(l, false, false); err != nil || strings.Count(out.String(), long) != 2 {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
