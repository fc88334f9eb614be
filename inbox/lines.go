package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// burstLines is how many records have a line of their own, of one kind and within burstTime. A handler with a fault may fail with all of them.
	burstLines = 10
	burstTime  = 10 * time.Second
)

// lines is what the log says of single records.
type lines struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	kinds map[string]*burst
}

// burst is what was said of one kind since it began, and how many had no line.
type burst struct {
	began        time.Time
	said, unsaid int
}

func newLines(log *slog.Logger, now func() time.Time) *lines {
	return &lines{log: log, now: now, kinds: map[string]*burst{}}
}

// say says it of one record, or counts it. What was counted is said with the next line of its kind.
func (l *lines) say(level slog.Level, text string, attrs ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.kinds[text]
	if b == nil || l.now().Sub(b.began) >= burstTime {
		if b != nil && b.unsaid > 0 {
			attrs = append(attrs, "unsaid", b.unsaid)
		}
		b = &burst{began: l.now()}
		l.kinds[text] = b
	}
	if b.said == burstLines {
		b.unsaid++
		return
	}
	b.said++
	l.log.Log(context.Background(), level, text, attrs...)
}

// close says how many had no line: there will be none after it.
func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for text, b := range l.kinds {
		if b.unsaid > 0 {
			l.log.Warn("more records of which the same was to be said", "said", text, "unsaid", b.unsaid)
		}
	}
	clear(l.kinds)
}

// decodeError is about a value that a handler does not take.
type decodeError struct {
	as    string
	cause error
}

func (e *decodeError) Error() string { return fmt.Sprintf("decode the value as %s: %v", e.as, e.cause) }

func (e *decodeError) Unwrap() error { return e.cause }

var (
	errNull  = errors.New("it is null; a handler that takes []byte is given it as it is")
	errEmpty = errors.New("it is empty")
)

// forLog is the error without what the value holds, such as a number that does not fit, and of a long one the beginning.
func forLog(err error) any {
	var d *decodeError
	if !errors.As(err, &d) {
		if text := err.Error(); len(text) > maxErrorText {
			return storable(text, maxErrorText)
		}
		return err
	}
	why := "it does not fit; outbox inbox failures shows why"
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.Is(d.cause, errNull), errors.Is(d.cause, errEmpty):
		why = d.cause.Error()
	case errors.As(d.cause, &kind):
		of, _, _ := strings.Cut(kind.Value, " ")
		why = fmt.Sprintf("a %s does not fit %s", of, kind.Type)
		if kind.Field != "" {
			why += ", the type of " + kind.Field
		}
	case errors.As(d.cause, &syntax):
		why = fmt.Sprintf("it is no JSON near byte %d", syntax.Offset)
	}
	return fmt.Sprintf("decode the value as %s: %s", d.as, why)
}
