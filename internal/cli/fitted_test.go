package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/outbox-relay/outbox/operate"
)

func TestARowOfJobsAndOfTheAuditIsOneLine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 5, 4, 38, 0, time.UTC)
	filter, err := json.Marshal(map[string]any{"events": map[string]any{"state": "parked", "topic": "order-service.order.confirmed", "error": "message_too_large", "max_id": "1500000"}})
	if err != nil {
		t.Fatal(err)
	}
	note := "2400 done, 100 failed; " + strings.Repeat("topic shop.order: MESSAGE_TOO_LARGE ", 5) + "0190f6c2-7d1e-7a55-8f0e-2f3c9a3d5b11"
	jobs := []operate.JobEntry{
		{ID: 12, Verb: "skip", Filter: filter, Actor: "anna.svensson@example.com", Total: 2_500, Done: 2_400, Failed: 100, State: operate.JobDone, Note: note, StartedAt: at, SeenAt: at},
		{ID: 1, Verb: "unpark", Filter: json.RawMessage(`{"keys": {}}`), Actor: "bob", Total: 1, Done: 1, State: "running", StartedAt: at, SeenAt: at},
	}
	affected := int64(2400)
	entries := []operate.AuditEntry{{At: at, Actor: "anna", Verb: "skip", Filter: filter, Affected: &affected, Outcome: note, Reason: strings.Repeat("why ", 30)}}
	requests := []operate.OpenRequest{{ID: 7, Verb: "skip", Topic: "order-service.order.confirmed", PartitionKey: strings.Repeat("k", 60), Event: &operate.Ref{ID: 4711}, Actor: "anna", Reason: strings.Repeat("why ", 30), At: at}}
	for _, full := range []bool{false, true} {
		var out bytes.Buffer
		a := &app{stdout: &out}
		if err := a.printJobs(operate.JobPage{Jobs: jobs, Requests: requests}, shown{full}); err != nil {
			t.Fatal(err)
		}
		if err := a.printAudit(operate.AuditPage{Entries: entries}, shown{full}); err != nil {
			t.Fatal(err)
		}
		widest := 0
		for line := range strings.Lines(out.String()) {
			widest = max(widest, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
		}
		if full != (widest > usual) || full != strings.Contains(out.String(), "3d5b11") {
			t.Errorf("full %v: the widest line has %d characters\n%s", full, widest, &out)
		}
		for _, want := range []string{"12  done ", "2400 of 2500, 100 failed", "--state parked", "1 of 1", "last seen", "4711"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("full %v: no %q in\n%s", full, want, &out)
			}
		}
	}
}

func TestAnIDIsCutOnlyWhenNothingElseIsLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"4711 4712 4713", 14, "4711 4712 4713"},
		{"4711 4712 4713", 13, "4711 4712 …"},
		{"4711 4712 4713", 11, "4711 4712 …"},
		{"4711 4712 4713", 10, "4711 4712…"},
		{"0190f6c2-7d1e-7a55", 10, "0190f6c2-…"},
		{"ü ü", 2, "ü…"},
		{"a", 0, "…"},
	} {
		if got := shortened(c.text, c.most); got != c.want {
			t.Errorf("%q in %d characters is %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
