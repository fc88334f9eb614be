package house

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"
)

// wordRule is a pattern that is nowhere written.
type wordRule struct {
	name    string
	pattern *regexp.Regexp
	applies func(file) bool
	bad     string // an example that the rule must find
	good    string // one that it must leave alone
}

// The patterns and examples are written in pieces, else this file would break its own rules.
func wordRules() []wordRule {
	anywhere := func(f file) bool { return !f.name(".sum") }
	code := func(f file) bool {
		return f.name(".go", ".sql", ".sh", ".ts", ".js", ".html", ".css", ".yml", "Makefile")
	}
	return []wordRule{{
		name:    "no path of one machine; make it relative, or a setting",
		pattern: regexp.MustCompile(`(^|[^a-zA-Z0-9_.])/(work|root|farm|Users)` + `/|\.\./` + `shared\b`),
		applies: anywhere,
		bad:     `dir := "/` + `root/data"`,
		good:    `go test ./network/root/...`,
	}, {
		name:    "no download address in a lock file; strip it",
		pattern: regexp.MustCompile(`"resolved"\s*:\s*"https?:`),
		applies: func(f file) bool { return f.name("lock.json", ".lock", "lock.yaml") },
		bad:     `"resolved": "` + `https://example.org/a.tgz"`,
		good:    `"version": "1.0.0"`,
	}, {
		name:    "no unfinished work; do it, or open an issue",
		pattern: regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`),
		applies: code,
		bad:     `// TO` + `DO: later`,
		good:    `dir=$(mktemp -d /tmp/outbox.XXXXXX)`,
	}, {
		name:    "no replace in the root's go.mod; users of the module would not get it",
		pattern: regexp.MustCompile(`^\s*replace\b`),
		applies: func(f file) bool { return f.path == "go.mod" },
		bad:     "replace example.org/a => ../a",
		good:    "require example.org/replace v1.0.0",
	}}
}

// find returns the findings of the rule in a file.
func (r wordRule) find(f file) []string {
	if !r.applies(f) {
		return nil
	}
	var found []string
	for i, line := range bytes.Split(f.text, []byte("\n")) {
		if r.pattern.Match(line) {
			found = append(found, fmt.Sprintf("%s:%d: %s: %s", f.path, i+1, r.name, line[:min(len(line), 120)]))
		}
	}
	return found
}

func TestWordsThatAreNowhereWritten(t *testing.T) {
	t.Parallel()
	all := files(t)
	for _, rule := range wordRules() {
		for _, f := range all {
			for _, finding := range rule.find(f) {
				t.Error(finding)
			}
		}
	}
}

func TestTheWordRulesFindWhatTheyForbid(t *testing.T) {
	t.Parallel()
	for _, r := range wordRules() {
		r.applies = func(file) bool { return true }
		if got := r.find(file{"bad", []byte("fine\n" + r.bad)}); len(got) != 1 {
			t.Errorf("rule %q on %q: got %q, want one finding", r.name, r.bad, got)
		}
		if got := r.find(file{"good", []byte(r.good)}); len(got) != 0 {
			t.Errorf("rule %q on %q: got %q, want none", r.name, r.good, got)
		}
	}
}
