package cli

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// hostile has what steers a terminal: C0 and C1 controls, DEL, characters that turn the direction of a line, one beyond 16 bits, and ones that only look so.
const hostile = "\x1b[31m \u0090\u009b31m \x7f \u202e \u2066 \u200f \u061c \U000e0001 Grüße 日本 😀 <b>&"

func TestJSONOfARowCannotSteerATerminalAndMeansWhatItMeant(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{stdout: &out}
	if err := a.encode(map[string]any{hostile: json.RawMessage(`{"raw":"` + "\u009b\\\\\u202e" + `"}`)}); err != nil {
		t.Fatal(err)
	}
	wantInert(t, out.String())
	var back map[string]map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if got, want := back[hostile]["raw"], "\u009b\\\u202e"; got != want {
		t.Errorf("got %q back, want %q: %s", got, want, &out)
	}
	if !strings.Contains(out.String(), "Grüße 日本 😀") {
		t.Errorf("what can be read is escaped: %s", &out)
	}
}

func TestALogInJSONCannotSteerATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{stderr: &out}
	a.logger(&out, slog.LevelInfo).Info("event failed", "key", hostile)
	wantInert(t, out.String())
}

func wantInert(t *testing.T, text string) {
	t.Helper()
	if !utf8.ValidString(text) || !strings.HasSuffix(text, "\n") {
		t.Errorf("no whole line of UTF-8: %q", text)
	}
	for _, r := range strings.TrimSuffix(text, "\n") {
		if !unicode.IsPrint(r) {
			t.Errorf("%U stands in the output: %q", r, text)
		}
	}
}

func FuzzInertJSONMeansTheSame(f *testing.F) {
	f.Add(hostile)
	f.Add("\xff\u0085\\\"")
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if err := json.Unmarshal(text, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(inert(text), &after); err != nil || before != after {
			t.Errorf("%q became %q: %v", before, after, err)
		}
	})
}
