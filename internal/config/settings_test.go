package config

import (
	"reflect"
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// Every setting has its field, every field its setting, and every default can be read and is allowed.
func TestSettingsAndStructsAgree(t *testing.T) {
	t.Parallel()
	fields := map[string]reflect.Type{}
	for _, typ := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[Source]()} {
		for i := range typ.NumField() {
			if tag := typ.Field(i).Tag.Get("koanf"); tag != "" && tag != "-" {
				fields[tag] = typ.Field(i).Type
			}
		}
	}
	for _, s := range Settings() {
		field, known := fields[s.Key]
		if !known {
			t.Errorf("%s has no field", s.Key)
			continue
		}
		delete(fields, s.Key)
		value, ok := s.Kind.zero(), true
		if s.Default != "" {
			value, ok = s.Kind.parse(s.Default)
		}
		if !ok {
			t.Errorf("%s: its default %q is not %s", s.Key, s.Default, s.Kind)
		} else if want := s.check(value); want != "" && s.Default != "" {
			t.Errorf("%s: its default %q is not allowed: want %s", s.Key, s.Default, want)
		}
		if got := reflect.TypeOf(value); got != field && (!s.Secret || got.Kind() != field.Kind()) {
			t.Errorf("%s: the setting is a %s, the field a %s", s.Key, got, field)
		}
	}
	if len(fields) > 0 {
		t.Errorf("fields without a setting: %v", fields)
	}
}

func TestEverySettingButASecretHasAFlag(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Flags(fs)
	for _, s := range Settings() {
		if has := fs.Lookup(s.Key) != nil; has == s.Secret {
			t.Errorf("%s: has a flag: %v", s.Key, has)
		}
	}
}

func TestVariablesOfDifferentSourcesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, source := range []string{"a", "a-create", "a-tls", "b"} {
		for _, s := range Settings() {
			name := s.variableOf(source)
			if before, taken := seen[name]; taken {
				t.Errorf("%s is of %s and of %s", name, before, source)
			}
			seen[name] = source
		}
	}
}

func TestNearestFindsWhatWasMeant(t *testing.T) {
	t.Parallel()
	candidates := keysOf(PerSource)
	for name, want := range map[string]string{"tabel": "table", "broker": "brokers", "leasettl": "lease-ttl", "something-else": "", "sasl-pasword-file": "sasl-password-file"} {
		if got := Nearest(name, candidates, 0); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if !slices.Contains(keysOf(Process), "sources") {
		t.Error("the list of sources is not among what the top may hold")
	}
}

func FuzzTheFileNeverPanics(f *testing.F) {
	for _, text := range []string{"sources:\n- name: a\n", "a: &a [*a]", "sources: [*x]", "? {a: b}\n: c", "brokers: !!binary x", "<<: {settle: mark}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := &file{name: "x", top: newLayer()}
		root, err := parseYAML(text)
		if err != nil {
			_ = file.syntax(err, text)
			return
		}
		if root != nil {
			file.readTop(t.Context(), root)
		}
		file.sources(t.Context(), nil, newLayer(), newLayer())
	})
}

func TestABrokerHasAPortThatThereIs(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"h:9092": true, "[::1]:1": true, "h:kafka": true, "h:65535": true, "h:0": false, "h:65536": false, "h:99999999999999999999": false, "h:+9": false, "h:": false, "h:-1": false} {
		if got := AreAddresses([]string{address}); got != want {
			t.Errorf("%s: got %t", address, got)
		}
	}
}
