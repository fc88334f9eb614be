//go:build integration && unix

package chaos_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// mostJournal is when a journal's file is set aside; one that was set aside before is gone then.
	mostJournal = 64 << 20
	// mostLines bounds the lines that are kept of those that the judge quotes.
	mostLines = 200
)

// journal is what one relay says, over all its processes. It goes into a file that does not grow without end; what the judge asks for is kept beside it,
// and that does not grow with time either, but with what befalls the relay.
type journal struct {
	path string

	mu      sync.Mutex
	file    *os.File
	written int
	// partial is a line that has not ended.
	partial []byte
	// last are the newest lines.
	last []string
	// messages counts what was said, warnings what was said as one.
	messages, warnings map[string]int
	// interruptions are when and why the relay could not go on, by the clock of the laboratory.
	interruptions []interruption
	// crashes are lines of a program that dies.
	crashes []string
	// ahead and behind are how far the relay's clock was at most from that of the laboratory.
	ahead, behind time.Duration
	// err is the first that the file has met.
	err error
}

type interruption struct {
	at  time.Time
	why string
}

func newJournal(path string) *journal {
	return &journal{path: path, messages: map[string]int{}, warnings: map[string]int{}}
}

// Write takes what the process writes; its lines are read as they come.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = j.store(b)
	}
	j.partial = append(j.partial, b...)
	for {
		line, rest, whole := bytes.Cut(j.partial, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		j.note(line, time.Now())
		j.partial = append(j.partial[:0], rest...)
	}
}

// store writes into the file. The relay must not stop for a full disk, so the error is for the end.
func (j *journal) store(b []byte) error {
	if j.file != nil && j.written > mostJournal {
		j.written = 0
		err := errors.Join(j.file.Close(), os.Rename(j.path, j.path+".1"))
		if j.file = nil; err != nil {
			return err
		}
	}
	if j.file == nil {
		var err error
		if j.file, err = os.OpenFile(j.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return err
		}
	}
	j.written += len(b)
	_, err := j.file.Write(b)
	return err
}

func (j *journal) note(text []byte, at time.Time) {
	if j.last = append(j.last, string(text)); len(j.last) > mostLines {
		j.last = slices.Delete(j.last, 0, 1)
	}
	var line struct {
		Time       time.Time
		Level, Msg string
		Error      string
	}
	if json.Unmarshal(text, &line) != nil || line.Msg == "" {
		j.noteCrash(string(text))
		return
	}
	j.messages[line.Msg]++
	if line.Level != "INFO" && line.Level != "DEBUG" {
		j.warnings[line.Msg]++
	}
	if line.Msg == "relay interrupted" {
		j.interruptions = append(j.interruptions, interruption{at, line.Error})
	}
	j.ahead, j.behind = max(j.ahead, line.Time.Sub(at)), max(j.behind, at.Sub(line.Time))
}

func (j *journal) noteCrash(line string) {
	dies := strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "DATA RACE")
	if dies && len(j.crashes) < mostLines {
		j.crashes = append(j.crashes, line)
	}
}

// said counts the messages that begin so.
func (j *journal) said(beginning string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for msg, times := range j.messages {
		if strings.HasPrefix(msg, beginning) {
			n += times
		}
	}
	return n
}

// tail are the newest n lines.
func (j *journal) tail(n int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.last[max(0, len(j.last)-n):], "\n")
}

// ended closes the file; what is said later opens it again. It returns what was wrong with it.
func (j *journal) ended() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		j.err = errors.Join(j.err, j.file.Close())
		j.file = nil
	}
	return j.err
}

func TestAJournalKeepsWhatTheJudgeAsksForAndDoesNotGrow(t *testing.T) {
	t.Parallel()
	j := newJournal(t.TempDir() + "/relay.log")
	say := func(text string) {
		t.Helper()
		if _, err := j.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	say(`{"time":"` + now.Add(time.Hour).Format(time.RFC3339Nano) + `","level":"WARN","msg":"relay `)
	say(`interrupted","error":"lost"}` + "\npanic: x\nno json\n")
	filler := []byte(strings.Repeat("x", 1<<20-1) + "\n")
	for range 2*mostJournal>>20 + 5 {
		say(string(filler))
	}
	say(strings.Repeat("short\n", mostLines))
	if err := j.ended(); err != nil {
		t.Fatal(err)
	}
	if j.said("relay interrupted") != 1 || j.warnings["relay interrupted"] != 1 || len(j.interruptions) != 1 || !slices.Equal(j.crashes, []string{"panic: x"}) {
		t.Errorf("it has noted %v, %v, %v, %v", j.messages, j.warnings, j.interruptions, j.crashes)
	}
	if late := j.interruptions[0].at.Sub(now); j.ahead < time.Minute || late < 0 || late > time.Minute {
		t.Errorf("the relay's clock is %s ahead, and was interrupted %s after now", j.ahead, late)
	}
	if len(j.last) != mostLines {
		t.Errorf("it keeps %d lines", len(j.last))
	}
	for _, path := range []string{j.path, j.path + ".1"} {
		if info, err := os.Stat(path); err != nil || info.Size() > mostJournal+2<<20 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}
