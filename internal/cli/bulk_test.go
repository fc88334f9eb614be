package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox/operate"
)

func TestOnlyAYesAgrees(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]int{"y\n": exitOK, " YES \n": exitOK, "yes": exitOK, "n\n": exitUnconfirmed, "": exitUnconfirmed, "yep\n": exitUnconfirmed, "30\n": exitUnconfirmed} {
		var errs bytes.Buffer
		a := &app{stderr: &errs}
		got := exitOK
		if err := a.ask(t.Context(), strings.NewReader(answer), "Skip 30 events?"); err != nil {
			got = exitCode(err)
		}
		if got != want || errs.String() != "Skip 30 events? [y/N] " {
			t.Errorf("%q: exit code %d, want %d; asked %q", answer, got, want, errs.String())
		}
	}
}

// Elsewhere than on a terminal there is a line now and then.
func TestAJobSaysHowFarItIsInLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	bar := newJobBar(&out)
	now := bar.said
	bar.now = func() time.Time { return now }
	for i := range 12 {
		p := operate.Progress{Job: 7, Total: 100, Done: int64(i), Failed: 1}
		if i < 3 {
			p = operate.Progress{Done: int64(i * 1000)}
		}
		bar.show(p)
		now = now.Add(2 * time.Second)
	}
	bar.end()
	if want := "job 7: 3 of 100 done, 1 failed\njob 7: 6 of 100 done, 1 failed\njob 7: 9 of 100 done, 1 failed\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestAPlanAndAReportDoNotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{stdout: &out}
	bad := "shop\x1b[31m\r\n"
	b := operate.Bulk{Verb: operate.VerbSkip, Events: &operate.EventFilter{}}
	a.describe(&out, b, operate.Plan{Count: 1, Topics: []operate.TopicCount{{Topic: bad, Count: 1}}, Refused: []operate.FailedFor{{Text: bad, Count: 1}}})
	a.sayReport(operate.Report{Total: 1, Failed: 1, Reasons: []operate.FailedFor{{Text: bad, Count: 1}}})
	if strings.ContainsAny(out.String(), "\x1b\r") {
		t.Errorf("printed %q", out.String())
	}
}

// One Ctrl-C at a question ends the command, and nothing is changed.
func TestAnInterruptedQuestionIsANo(t *testing.T) {
	t.Parallel()
	in, end := io.Pipe()
	defer func() { _ = end.Close() }()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	err := (&app{stderr: io.Discard}).ask(ctx, in, "Skip 30 events?")
	if operate.CodeOf(err) != operate.CodeUnconfirmed || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("the answer is %v", err)
	}
}

// That they go on is no promise that they come through.
func TestManyUnparkedKeysMayBeParkedAgain(t *testing.T) {
	t.Parallel()
	for verb, warns := range map[operate.Verb]bool{operate.VerbUnpark: true, operate.VerbRetry: true, operate.VerbSkip: false} {
		var out bytes.Buffer
		a := &app{stdout: &out}
		a.sayReport(operate.Report{Job: 1, Verb: verb, State: operate.JobDone, Total: 1450, Done: 1450})
		if got := out.String(); strings.Contains(got, "\n  if the cause is still there the keys are parked again; see outbox keys list\n") != warns {
			t.Errorf("%s: %q", verb, got)
		}
		out.Reset()
		a.sayReport(operate.Report{Job: 1, Verb: verb, State: operate.JobCancelled, Total: 1450, Untouched: 1450})
		if got := out.String(); strings.Contains(got, "parked again") {
			t.Errorf("%s of nothing: %q", verb, got)
		}
	}
}

// Whoever is told ids wants to copy the command.
func TestTheCommandThatReplaysWhatFailedIsShownAsItIsTyped(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	again := `when what failed is mended: outbox replay 1 2 --reason 'lost by ann'\''s "consumer"'`
	(&app{stdout: &out}).sayReport(operate.Report{Job: 1, Verb: operate.VerbReplay, State: operate.JobDone, Total: 3, Done: 1, Failed: 2, FailedIDs: []string{"1", "2"}, Again: again})
	if got := out.String(); !strings.HasSuffix(got, "\n  "+again+"\n") {
		t.Errorf("got %q", got)
	}
}
