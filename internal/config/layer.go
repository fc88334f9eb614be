package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// origin is where a setting was made.
type origin struct {
	// name stands in front of an error.
	name string
	// typed is of the command line.
	typed bool
	// line is the place in the file of settings, without the key: outbox.yaml:12; "" elsewhere.
	line string
	// path is the file that a secret was read from.
	path string
	// rotating reads a secret from its file again; nil for one that was written there itself, or cannot be read again.
	rotating func() Secret
}

// layer is what one place says.
type layer struct {
	values  map[string]any
	origins map[string]origin
	// refused are the settings that were made and cannot be, by their keys.
	refused map[string]bool
}

func newLayer() layer { return layer{map[string]any{}, map[string]origin{}, map[string]bool{}} }

// judged keeps in mind that a setting was made here, be it wrong.
func (l layer) judged(s Setting, err error) error {
	if err != nil {
		l.refused[s.Key] = true
	}
	return err
}

// defaults is the lowest layer.
func defaults() layer {
	l := newLayer()
	for _, s := range Settings() {
		l.values[s.Key] = s.byDefault()
	}
	return l
}

func (s Setting) byDefault() any {
	if s.Default == "" {
		return s.Kind.zero()
	}
	// A test makes sure that every default can be read.
	value, _ := s.Kind.parse(s.Default)
	return value
}

// put reads one value, written as text, and returns what is wrong with it.
func (l layer) put(s Setting, text string, o origin) error {
	value, ok := s.Kind.parse(text)
	if !ok {
		return l.judged(s, o.wrong("is %s: want %s", s.shown(text), s.Kind.wanted(text)))
	}
	return l.judged(s, l.set(s, value, text, o))
}

func (l layer) set(s Setting, value any, text string, o origin) error {
	if want := s.check(value); want != "" {
		return o.wrong("is %s: want %s", s.shown(text), want)
	}
	l.values[s.Key] = value
	l.origins[s.Key] = o
	return nil
}

// urlWithPassword is a URL whose user has a password.
var urlWithPassword = regexp.MustCompile(`^[a-zA-Z]+://[^/@]*:[^/]*@`)

// longestShown bounds what an error repeats of a value.
const longestShown = 100

func (s Setting) shown(text string) string {
	if s.Secret || strings.Contains(text, pemBegins) || urlWithPassword.MatchString(text) {
		return "not shown"
	}
	return Quoted(text)
}

// urlLike is what a value has that may hold a password, whatever it was given for: an address with a user, a URL.
var urlLike = regexp.MustCompile(`@|://`)

// Quoted is what an error repeats of a value that cannot be.
func Quoted(text string) string {
	if urlLike.MatchString(text) {
		return "not shown, since it may hold a password"
	}
	if len(text) > longestShown {
		text = strings.ToValidUTF8(text[:longestShown], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}

// fill lays the layers over each other, the last one on top, fills the struct, and returns where each setting comes from.
func fill(into any, layers ...layer) (map[string]origin, error) {
	k := koanf.New(".")
	origins := map[string]origin{}
	for _, l := range layers {
		if err := k.Load(confmap.Provider(l.values, ""), nil); err != nil {
			return nil, fmt.Errorf("merge settings: %w", err)
		}
		for key := range l.values {
			delete(origins, key)
			if o, made := l.origins[key]; made {
				origins[key] = o
			}
		}
	}
	if err := k.Unmarshal("", into); err != nil {
		return nil, fmt.Errorf("merge settings: %w", err)
	}
	return origins, nil
}

// only leaves the settings of some scopes.
func (l layer) only(scopes ...Scope) layer {
	out := newLayer()
	for _, s := range Settings() {
		if value, made := l.values[s.Key]; made && slices.Contains(scopes, s.Scope) {
			out.values[s.Key] = value
			if o, named := l.origins[s.Key]; named {
				out.origins[s.Key] = o
			}
		}
		if l.refused[s.Key] && slices.Contains(scopes, s.Scope) {
			out.refused[s.Key] = true
		}
	}
	return out
}
