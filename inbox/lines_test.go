package inbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestManyRecordsOfOneKindHaveFewLinesAndAreCounted(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Unix(0, 0)
	l := newLines(slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	count := func(text string) int { return strings.Count(log.String(), text) }
	for n := range 100 {
		l.say(slog.LevelError, "record not handled", "n", n)
	}
	l.say(slog.LevelWarn, "record waits", "n", 0)
	if count("record not handled") != burstLines || count("record waits") != 1 {
		t.Errorf("log\n%s, want %d lines of the one kind, and one of the other", log.String(), burstLines)
	}
	now = now.Add(burstTime)
	l.say(slog.LevelError, "record not handled", "n", 100)
	l.say(slog.LevelError, "record not handled", "n", 101)
	if count("record not handled") != burstLines+2 || count("unsaid=90") != 1 || count("unsaid=") != 1 {
		t.Errorf("log\n%s, want two lines more, the first of which says that 90 had none", log.String())
	}
	for n := range burstLines {
		l.say(slog.LevelError, "record not handled", "n", n)
	}
	l.close()
	if count("unsaid=2") != 1 {
		t.Errorf("log\n%s, want the last two counted", log.String())
	}
}

func TestWhatTheLogSaysOfAValueHoldsNothingOfIt(t *testing.T) {
	t.Parallel()
	type order struct {
		Total int       `json:"total"`
		At    time.Time `json:"at"`
	}
	for value, want := range map[string]string{
		`{"total": 4711.25}`:   "decode the value as inbox.order: a number does not fit int, the type of total",
		`{"total": "sec4711"}`: "decode the value as inbox.order: a string does not fit int, the type of total",
		`[4711]`:               "decode the value as inbox.order: a array does not fit inbox.order",
		`{"at": "sec4711"}`:    "decode the value as inbox.order: it does not fit; outbox inbox failures shows why",
		`{"total": sec4711}`:   "decode the value as inbox.order: it is no JSON near byte 11",
		`null`:                 "",
		``:                     "decode the value as inbox.order: it is empty",
	} {
		var into order
		err := decode([]byte(value), &into)
		if err == nil {
			if want != "" {
				t.Errorf("%s: no error", value)
			}
			continue
		}
		err = Permanent(&decodeError{fmt.Sprintf("%T", into), err})
		if got := fmt.Sprint(forLog(err)); got != want || strings.Contains(got, "4711") {
			t.Errorf("%s: the log says %q, want %q", value, got, want)
		}
		var syntax *json.SyntaxError
		if value == `{"total": sec4711}` && !errors.As(err, &syntax) {
			t.Errorf("%s: the cause is lost: %v", value, err)
		}
	}
	if err := decode(nil, &order{}); fmt.Sprint(forLog(Permanent(&decodeError{"inbox.order", err}))) != "decode the value as inbox.order: "+errNull.Error() {
		t.Errorf("a null: %v", err)
	}
	own := errors.New("no such account")
	if got := forLog(own); got != any(own) {
		t.Errorf("a handler's error is said as %v", got)
	}
	if got := fmt.Sprint(forLog(errors.New(strings.Repeat("é", 1<<20)))); len(got) != maxErrorText || !strings.HasPrefix(got, "éé") {
		t.Errorf("of a handler's error the log has %d bytes", len(got))
	}
}
