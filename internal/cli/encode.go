package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// encode prints an object as JSON, in one line.
func (a *app) encode(v any) error { return encodeTo(a.stdout, v) }

func encodeTo(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	_, err = w.Write(append(inert(text), '\n'))
	return err
}

// inert returns the JSON with an escape for each character that a terminal would obey or that would turn the direction of a line. It means what it meant: outside of
// strings there is no such character, and in a string its escape is the same character. Bytes that are no UTF-8 stand for U+FFFD.
func inert(text []byte) []byte {
	if !bytes.ContainsFunc(text, steers) {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case !steers(r):
			out = append(out, text[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[n:]
	}
	return out
}

// steers tells whether a character is more than a mark on the screen. What JSON escapes itself is not asked for.
func steers(r rune) bool { return r == utf8.RuneError || r >= 0x7f && !unicode.IsPrint(r) }

// inertLines makes JSON inert that is written in whole lines, as a log is.
type inertLines struct{ out io.Writer }

// Write is of io.Writer.
func (l inertLines) Write(line []byte) (int, error) {
	if _, err := l.out.Write(inert(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// warn says what ends nothing. Where JSON was asked for, it waits for the end: stderr has one object there, or nothing.
func (a *app) warn(text string) {
	if a.asJSON {
		a.warnings = append(a.warnings, text)
		return
	}
	fmt.Fprintf(a.stderr, "outbox: warning: %s\n", noteLine(text))
}

// remarks is where a command logs beside its answer: stderr, or the warnings of the object that stands there.
func (a *app) remarks() io.Writer {
	if a.asJSON {
		return warningLines{a}
	}
	return a.stderr
}

// warningLines makes warnings of the lines of a log.
type warningLines struct{ a *app }

// mostWarnings bounds what one command keeps.
const mostWarnings = 20

// Write is of io.Writer.
func (w warningLines) Write(line []byte) (int, error) {
	if len(w.a.warnings) < mostWarnings {
		w.a.warn(strings.TrimRight(string(line), "\n"))
	}
	return len(line), nil
}
