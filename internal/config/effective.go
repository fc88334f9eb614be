package config

import (
	"reflect"
	"strings"
	"time"
)

// From says where a value comes from.
type From string

// Where values come from.
const (
	FromDefault  From = "default"
	FromFile     From = "file"
	FromVariable From = "variable"
	FromFlag     From = "flag"
)

// Effective is a setting with what it is in the end.
type Effective struct {
	Setting string `json:"setting"`
	// Value is a bool, a number, a text or a list; a duration is a text such as 1m30s. A secret is ***, and "" when there is none; so is all in a connection string that may be a password.
	Value any  `json:"value"`
	From  From `json:"from"`
	// Origin is the flag, the variable, or file and line; default when nobody has made the setting.
	Origin string `json:"origin"`
	// Path is the file that a secret was read from.
	Path string `json:"path,omitempty"`
}

// Effective are the settings of the process, in the order in which people should read them.
func (c *Config) Effective() []Effective { return effective(c, c.origins, Run, Process) }

// Effective are the settings of the source, in the order in which people should read them.
func (s *Source) Effective() []Effective { return effective(s, s.origins, PerSource) }

func effective(of any, origins map[string]origin, scopes ...Scope) (list []Effective) {
	values := tagged(of)
	for _, s := range Settings() {
		for _, scope := range scopes {
			if s.Scope == scope {
				o, made := origins[s.Key]
				list = append(list, o.effective(s.Key, made, values[s.Key]))
			}
		}
	}
	return list
}

func (o origin) effective(key string, made bool, value reflect.Value) Effective {
	e := Effective{Setting: key, Value: presentable(key, value), From: FromDefault, Origin: string(FromDefault), Path: o.path}
	switch {
	case !made:
	case o.typed:
		e.From, e.Origin = FromFlag, o.name
	case o.line != "":
		e.From, e.Origin = FromFile, o.line
	default:
		e.From, e.Origin = FromVariable, o.name
	}
	return e
}

// presentable is a value that may be shown, as JSON writes it.
func presentable(key string, value reflect.Value) any {
	switch v := value.Interface().(type) {
	case time.Duration:
		return DurationText(v)
	case Secret:
		return v.String()
	case []string:
		return append([]string{}, v...)
	case string:
		if key == "database-url" {
			return Shown(v)
		}
		return v
	default:
		return v
	}
}

// DurationText leaves out minutes and seconds that are none: 168h, not 168h0m0s.
func DurationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// tagged are the fields of a struct that hold settings, by the settings' keys.
func tagged(of any) map[string]reflect.Value {
	v := reflect.ValueOf(of).Elem()
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag.Get("koanf"); tag != "" && tag != "-" {
			fields[tag] = v.Field(i)
		}
	}
	return fields
}
