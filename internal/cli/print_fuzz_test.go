package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outbox-relay/outbox/operate"
)

// printed are all that lists print of a text that stands wherever a row may hold one; the name of each begins with how many lines it has to be.
func printed(t *testing.T, text string, full bool) map[string]string {
	t.Helper()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	cells := shown{full}
	filter, err := json.Marshal(map[string]any{"events": map[string]string{"topic": text, text: text}})
	if err != nil {
		t.Fatal(err)
	}
	event := operate.Event{ID: 1, State: operate.StateParked, Topic: text, PartitionKey: text, Type: text, AggregateType: text, AggregateID: text, Code: text, Error: text}
	kept := event
	kept.State, kept.Kept = operate.StatePending, &operate.Reason{Text: text}
	again := event
	again.NextAttemptAt = noon
	pause := operate.Pause{Scope: operate.ScopeKey, Topic: text, PartitionKey: text, By: text, Reason: text, Since: noon}
	hold := operate.Hold{Topic: text, Relay: text, Code: text, Reason: text}
	plan := operate.Plan{Count: 1, Topics: []operate.TopicCount{{Topic: text, Count: 1}}, Refused: []operate.FailedFor{{Text: text, Count: 1}}, Notes: []string{text}}
	all := map[string]string{}
	show := func(name string, print func(*app) error) {
		var out bytes.Buffer
		if err := print(&app{stdout: &out, stderr: &out}); err != nil {
			t.Fatal(err)
		}
		all[name] = out.String()
	}
	show("5 events", func(a *app) error {
		return a.printEvents(operate.EventPage{Events: []operate.Event{event, kept, again, {Topic: text}}}, cells)
	})
	show("4 keys", func(a *app) error {
		return a.printKeyLines(operate.KeyPage{
			Keys:       []operate.Key{{Topic: text, PartitionKey: text, Type: text, Code: text, Reason: text}},
			KeysBeside: operate.KeysBeside{Paused: []operate.Pause{pause}, Waiting: []operate.WaitingKey{{Topic: text, PartitionKey: text, Error: text}}},
		}, cells)
	})
	show("6 jobs", func(a *app) error {
		return a.printJobs(operate.JobPage{
			Jobs:     []operate.JobEntry{{Verb: text, Filter: filter, Actor: text, Reason: text, State: operate.JobDone, Note: text}},
			Requests: []operate.OpenRequest{{Verb: text, Topic: text, PartitionKey: text, Actor: text, Reason: text}},
		}, cells)
	})
	show("2 audit", func(a *app) error {
		return a.printAudit(operate.AuditPage{Entries: []operate.AuditEntry{{Actor: text, Verb: text, Filter: filter, Reason: text, Outcome: text}}}, cells)
	})
	show("2 pauses", func(a *app) error { return a.printPauses([]operate.Pause{pause}) })
	show("6 topics", func(a *app) error {
		return a.printTopicList(operate.TopicList{
			Topics: []operate.Topic{{Topic: text, Paused: &pause, Holds: []operate.Hold{hold}}}, Paused: &pause, Outages: []operate.Outage{{Relay: text}},
		})
	})
	show("3 relays", func(a *app) error {
		return a.printRelayList([]operate.Relay{{Name: text, Version: text, Alive: true, Holds: 1, HeldNames: []string{text}}})
	})
	show("4 plan", func(a *app) error {
		a.describe(a.stdout, operate.Bulk{Verb: operate.VerbSkip, Events: &operate.EventFilter{}}, plan)
		return nil
	})
	show("3 report", func(a *app) error {
		a.sayReport(operate.Report{Verb: operate.VerbSkip, Total: 1, Failed: 1, Reasons: []operate.FailedFor{{Text: text, Count: 1}}, Note: "ended: " + text, State: operate.JobCancelled})
		return nil
	})
	letter := operate.DeadLetter{
		LetterRef: operate.LetterRef{Topic: text}, Key: operate.Bytes(text), EventID: text, Type: text, Form: operate.LetterOfConsumer, Error: text, Consumer: text, Original: &operate.LetterRef{Topic: text, Partition: -1, Offset: -1},
		Redriven: &operate.Redriven{By: text},
	}
	show("3 letters", func(a *app) error {
		a.now = time.Now
		return a.printLetters(operate.LetterPage{Letters: []operate.DeadLetter{letter}, Looks: []operate.LetterLook{{Topic: text, To: 1, Next: 1}}}, cells)
	})
	show("8 letter", func(a *app) error {
		return a.printLetter(&operate.LetterRecord{DeadLetter: letter, Headers: []operate.LetterHeader{{Key: text, Value: operate.Bytes(text)}}}, full, true)
	})
	failed := []operate.FailedFor{{Text: text, Count: 1}}
	show("6 redrive plan", func(a *app) error {
		a.describeRedrive(a.stdout, operate.Redrive{Consumer: text}, operate.RedrivePlan{Letters: 1, Count: 1, Topics: []operate.TopicCount{{Topic: text}}, Errors: failed, Refused: failed, Handled: new(int64), Notes: []string{text}})
		return nil
	})
	show("4 purge plan", func(a *app) error {
		a.describePurge(a.stdout, operate.LetterPurgePlan{Lost: 1, Partitions: []operate.PurgedPartition{{Topic: text}}, Errors: failed})
		return nil
	})
	show("1 purged", func(a *app) error {
		a.sayPurged(operate.LetterPurgePlan{Partitions: []operate.PurgedPartition{{Topic: text}}})
		return nil
	})
	return all
}

// Whatever a row holds: nothing that a terminal obeys is printed, and no text makes a line of its own.
func FuzzATableSteersNoTerminal(f *testing.F) {
	for _, text := range []string{"", "order-17", "\x1b[31mred\x1b[0m", "\x1b]0;title\a", "a\nb\r\nc\tbell\a", "\u202eevil", "\u009b31m", "\xff\xfe", "a\v\fb", `"quoted" \x1b`, strings.Repeat("\x1bü", 90), "\u2028line"} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, full bool) {
		for name, out := range printed(t, text, full) {
			if !utf8.ValidString(out) {
				t.Errorf("%s: no UTF-8 in %q", name, out)
			}
			if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%s: a control character at %d of %q", name, i, out)
			}
			if want := int(name[0] - '0'); strings.Count(out, "\n") != want {
				t.Errorf("%s: %d lines, want %d: %q", name, strings.Count(out, "\n"), want, out)
			}
		}
	})
}

// A payload keeps its lines, and nothing else of what a terminal obeys.
func FuzzAPayloadSteersNoTerminal(f *testing.F) {
	f.Add([]byte(`{"a": "\u001b[31m", "b": 1.50}`))
	f.Add([]byte("\x1b]0;x\a\xff\r\n"))
	f.Add(bytes.Repeat([]byte{0x80}, 11)) // no rune starts before the cut
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, most := range []int{maxShown, 10, 1 << 30} {
			var out bytes.Buffer
			if err := printText(&out, "payload", text, most); err != nil {
				t.Fatal(err)
			}
			if i := bytes.IndexFunc(out.Bytes(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || !utf8.Valid(out.Bytes()) {
				t.Errorf("a control character at %d of %q", i, out.String())
			}
		}
	})
}

func TestEveryCommandListsItsExitCodes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"events", "list"}, {"events", "show"}, {"keys", "unpark"}, {"jobs", "list"}, {"status"}, {"version"}, {"pause", "topic"}, {"migrate", "up"}, {"relay"}} {
		cmd, _, err := (&app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}).root().Find(args)
		if err != nil || strings.Count(cmd.Long, "Exit codes:") != 1 {
			t.Errorf("%v: %v, its help is %q", args, err, cmd.Long)
		}
	}
}
