package config

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// pairs calls do for each key of a mapping that was not met before.
func (f *file) pairs(n *yaml.Node, do func(key string, at int, value *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if before, again := seen[key.Value]; again {
			f.complain(key.Line, "%s is given twice, first on line %d", key.Value, before)
			continue
		}
		seen[key.Value] = key.Line
		do(key.Value, key.Line, resolved(n.Content[i+1]))
	}
}

func (f *file) readTop(ctx context.Context, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		f.illegible = true
		f.complain(n.Line, "want settings, such as poll-interval: 100ms, or a list of sources")
		return
	}
	f.pairs(n, func(key string, line int, value *yaml.Node) {
		if key == keySources {
			f.readSources(ctx, value, line)
			return
		}
		f.setting(ctx, f.top, key, line, value, Process, PerSource)
	})
}

func (f *file) readSources(ctx context.Context, n *yaml.Node, line int) {
	f.listed = true
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		f.nameless = true
		f.complain(line, "sources: want a list, each source beginning with - name:")
		return
	}
	seen := map[string]int{}
	for _, item := range n.Content {
		f.readEntry(ctx, resolved(item), seen)
	}
}

func (f *file) readEntry(ctx context.Context, n *yaml.Node, seen map[string]int) {
	if n.Kind != yaml.MappingNode {
		f.nameless = true
		f.complain(n.Line, "sources: want settings of a source, beginning with - name:")
		return
	}
	e := entry{line: n.Line, own: newLayer()}
	named := false
	f.pairs(n, func(key string, line int, value *yaml.Node) {
		if key == keyName {
			named = true
			e.name = f.sourceName(value, seen)
			return
		}
		f.setting(ctx, e.own, key, line, value, PerSource)
	})
	if !named {
		f.complain(n.Line, "the source has no name: give it one, such as name: orders")
	}
	if e.name == "" {
		f.nameless = true
		// It goes on under a name that nobody can give, so that the rest of it is looked at.
		e.name = fmt.Sprintf("(line %d)", n.Line)
	}
	f.entries = append(f.entries, e)
}

// maxSourceName keeps labels and variables readable.
const maxSourceName = 40

var sourceName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func (f *file) sourceName(n *yaml.Node, seen map[string]int) string {
	name := n.Value
	switch before, again := seen[name]; {
	case n.Kind != yaml.ScalarNode || len(name) > maxSourceName || !sourceName.MatchString(name):
		f.complain(n.Line, "name is %s: want letters a to z, digits and single dashes between them, at most %d", Setting{}.shown(name), maxSourceName)
		return ""
	case again:
		f.complain(n.Line, "name %s is taken by the source on line %d", name, before)
		return ""
	}
	seen[name] = n.Line
	return name
}

// mostUnknown is how many unknown settings are told of, each with what may be meant: a file of something else has thousands.
const mostUnknown = 100

// setting puts one line of the file into the layer.
func (f *file) setting(ctx context.Context, into layer, key string, line int, value *yaml.Node, scopes ...Scope) {
	s, fromFile, known := find(key)
	if !known {
		if f.unknown++; f.unknown > mostUnknown {
			if f.unknown == mostUnknown+1 {
				f.illegible = true
				f.complain(line, "and more settings that are unknown: is this a file of settings?")
			}
			return
		}
	}
	if reason, meant := misplaced(s, key, known, value, scopes); reason != "" {
		f.complain(line, "%s", reason)
		f.refuse(into, meant...)
		return
	}
	if !f.wants(s) {
		return
	}
	if tag := value.Tag; strings.HasPrefix(tag, "!") && !strings.HasPrefix(tag, "!!") {
		into.refused[s.Key] = true
		f.complain(value.Line, "%s: the value begins with !, which YAML takes for a tag: put a text that begins so in quotes", key)
		return
	}
	text, ok := scalars(value, s.Kind)
	if !ok {
		into.refused[s.Key] = true
		f.complain(value.Line, "%s: want %s", key, s.Kind)
		return
	}
	o := f.origin(line, key)
	if _, twice := into.origins[s.Key]; twice {
		f.complain(line, "%s: %s and %s are both given: leave one out", key, s.Key, s.Key+fileSuffix)
		return
	}
	put := into.put
	if fromFile {
		put = func(s Setting, path string, o origin) error { return into.putFile(ctx, s, path, o) }
	}
	if err := put(s, text, o); err != nil {
		f.problems = append(f.problems, err)
	}
}

// refuse keeps in mind which settings somebody has tried to make by other names, so that they are not missing as well.
func (f *file) refuse(into layer, keys ...string) {
	for _, key := range keys {
		if key == keySources {
			f.illegible = true
		}
		if s, _, known := find(key); known {
			into.refused[s.Key] = true
		}
	}
}

func (f *file) origin(line int, key string) origin {
	at := fmt.Sprintf("%s:%d", f.name, line)
	return origin{name: at + ": " + key, line: at}
}

// find returns the setting that a key of the file makes; fromFile tells that the key names a secret's file.
func find(key string) (s Setting, fromFile, known bool) {
	for _, s := range Settings() {
		if s.Key == key {
			return s, false, true
		}
		if s.Secret && s.Key+fileSuffix == key {
			return s, true, true
		}
	}
	return Setting{}, false, false
}

// LanesAdvice says how the number of lanes is set, to those who look for it among the settings of a relay.
const LanesAdvice = "the number of lanes belongs to the table; outbox migrate up --lanes N gives it to a new one, outbox lanes set N changes it"

// misplaced says why the key must not stand where it stands, and which settings are meant by it.
func misplaced(s Setting, key string, known bool, value *yaml.Node, scopes []Scope) (reason string, meant []string) {
	var here []string
	for _, scope := range scopes {
		if known && s.Scope == scope {
			return "", nil
		}
		here = append(here, keysOf(scope)...)
	}
	switch {
	case known && s.Scope == Run:
		return fmt.Sprintf("%s is not for a file: give --%s or %s", key, key, s.Variable()), nil
	case known:
		return key + " is of the whole process: write it at the top, not in a source", nil
	case key == keySources, key == keyName:
		return key + " does not belong here: the top has sources, and each of them a name", nil
	}
	if key == "lanes" {
		return "lanes is no setting of a relay: " + LanesAdvice, nil
	}
	inside := grouped(value, here)
	if key == "<<" {
		return "<< is not read: what stands at the top is for all sources", inside
	}
	// Behind a colon or an equals sign stands a value, which may be a password.
	if end := strings.IndexAny(key, ":="); end > 0 {
		return fmt.Sprintf("unknown setting %s: write a colon and a blank behind the name", Setting{}.shown(key[:end]+"…")), []string{Nearest(key[:end], here, 0)}
	}
	if len(inside) > 0 {
		return fmt.Sprintf("unknown setting %s: settings stand in no groups: write %s without it", Setting{}.shown(key), inside[0]), inside
	}
	reason = "unknown setting " + Setting{}.shown(key)
	if near := Nearest(key, here, 0); near != "" {
		return reason + ": did you mean " + near + "?", []string{near}
	}
	return reason, nil
}

// grouped are the settings that stand in a value as in a group, which no setting has.
func grouped(value *yaml.Node, known []string) (inside []string) {
	if value.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(value.Content); i += 2 {
		if key := value.Content[i].Value; slices.Contains(known, key) {
			inside = append(inside, key)
		}
	}
	return inside
}

func keysOf(scope Scope) []string {
	var keys []string
	for _, s := range Settings() {
		if s.Scope == scope {
			keys = append(keys, s.Key)
			if s.Secret {
				keys = append(keys, s.Key+fileSuffix)
			}
		}
	}
	if scope == Process {
		keys = append(keys, keySources)
	}
	return keys
}

// scalars returns the text of a value; that of a list has commas.
func scalars(n *yaml.Node, kind Kind) (string, bool) {
	switch {
	case n.Kind == yaml.ScalarNode:
		return n.Value, n.Tag != "!!null"
	case n.Kind != yaml.SequenceNode || kind != List:
		return "", false
	}
	var parts []string
	for _, item := range n.Content {
		item = resolved(item)
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" || strings.Contains(item.Value, ",") {
			return "", false
		}
		parts = append(parts, item.Value)
	}
	return strings.Join(parts, ","), true
}
