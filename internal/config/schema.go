package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// object is a JSON object. Its keys are written in the order of the alphabet.
type object = map[string]any

// durationPattern is what time.ParseDuration reads, without a sign; agePattern may begin with days.
const (
	oneDuration     = `([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)`
	durationPattern = `^(0|(` + oneDuration + `)+)$`
	agePattern      = `^(0|([0-9]+(\.[0-9]+)?d)?(` + oneDuration + `)*)$`
)

// Schema is the JSON Schema (draft 7, which editors know best) of the file of settings. It refuses names that there are not, words, numbers and
// forms that cannot be. What YAML reads as another kind than the setting's, such as a number for a name, the relay takes as it is written, and an editor asks for quotes.
func Schema() ([]byte, error) {
	top, own := object{}, object{keyName: object{
		"type": "string", "pattern": sourceName.String(), "maxLength": maxSourceName,
		"description": "What the source is called: the label in metrics, and part of its variables. Each source has another name.",
	}}
	for _, s := range Settings() {
		if s.Scope == Run {
			continue
		}
		s.describe(top)
		if s.Scope == PerSource {
			s.describe(own)
		}
	}
	top[keySources] = object{
		"type": "array", "minItems": 1, "items": sealed(own, keyName),
		"description": "Several outbox tables, each with the Kafka that its events go to. What stands beside the list is for all of them.",
	}
	schema := sealed(top)
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["title"] = "Settings of outbox relay"
	// A file in which everything is commented out says nothing, and is read.
	schema["type"] = []string{"object", "null"}

	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(schema); err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return out.Bytes(), nil
}

// sealed is an object that has these properties and no others.
func sealed(properties object, required ...string) object {
	o := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	var twins []object
	for _, s := range Settings() {
		if _, here := properties[s.Key]; here && s.Secret {
			twins = append(twins, object{"not": object{"type": "object", "required": []string{s.Key, s.Key + fileSuffix}}})
		}
	}
	if len(twins) > 0 {
		o["allOf"] = twins
	}
	return o
}

// describe adds the setting, and the twin of a secret, to the properties.
func (s Setting) describe(properties object) {
	p := s.form()
	p["description"] = s.description(s.Variable(), s.Usual, "--"+s.Key)
	if s.Default != "" {
		p["default"] = s.defaultValue()
	}
	if s.Secret {
		p["description"] = s.description(s.Variable(), s.Usual, "")
		twin := s.file()
		properties[twin.Key] = object{
			"type": "string", "minLength": 1,
			"description": "The file that holds " + s.Key + ", which is read again for each new connection. " + names(twin.Variable(), twin.Usual, ""),
		}
	}
	properties[s.Key] = p
}

func (s Setting) description(variable, usual, flag string) string {
	text := s.meaning()
	if len(s.Words) == 0 {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text + ". " + names(variable, usual, flag)
}

// names says by what else a setting is made.
func names(variable, usual, flag string) string {
	text := "Variable: " + variable
	if usual != "" {
		text += " or " + usual
	}
	if flag != "" {
		text += "; flag: " + flag
	}
	return text + "."
}

// form is what the value looks like.
func (s Setting) form() object {
	switch s.Kind {
	case Bool:
		return object{"type": "boolean"}
	case Number:
		p := object{"type": "integer"}
		if s.bounds != nil {
			p["minimum"] = s.bounds.low
			if s.bounds.high < math.MaxInt {
				p["maximum"] = s.bounds.high
			}
		}
		return p
	case Duration:
		return object{"type": "string", "pattern": durationPattern}
	case Age:
		// A bare 0 is a number in YAML.
		return object{"type": []string{"string", "integer"}, "pattern": agePattern, "minimum": 0, "maximum": 0}
	case List:
		return object{"type": []string{"array", "string"}, "items": object{"type": "string"}}
	}
	if len(s.Words) > 0 {
		return object{"type": "string", "enum": s.Words}
	}
	return object{"type": "string"}
}

func (s Setting) defaultValue() any {
	switch v := s.byDefault().(type) {
	case bool, int:
		return v
	case []string:
		return v
	}
	return s.Default
}
