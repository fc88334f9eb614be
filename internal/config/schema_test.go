package config

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaFile, document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(SchemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// An editor with the schema marks what the relay refuses, and nothing else.
func TestTheSchemaAndTheRelayAgree(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	for file, right := range map[string]bool{
		Example():                             true,
		"# nothing\n":                         true,
		"brokers: h:1,h:2\n":                  true,
		"brokers: [h:1]\n":                    true,
		"retain: 0\n":                         true,
		"retain: 1.5d12h\n":                   true,
		"retain: 7\n":                         false,
		"poll-interval: 1m30.5s\n":            true,
		"poll-interval: 100\n":                false,
		"poll-interval: 1d\n":                 false,
		"batch-size: 1\n":                     true,
		"batch-size: 0\n":                     false,
		"batch-size: many\n":                  false,
		"topic-replication: 1001\n":           false,
		"tls: true\n":                         true,
		"tls: yes\n":                          false,
		"settle: delete\n":                    true,
		"settle: burn\n":                      false,
		"setle: mark\n":                       false,
		"once: true\n":                        false,
		"client-id:\n":                        false,
		"sources: []\n":                       false,
		"sources:\n- table: x\n":              false,
		"sources:\n- name: A b\n":             false,
		"sources:\n- name: a\n":               true,
		"- a\n":                               false,
		"sources:\n- name: a\n  x: y\n":       false,
		"sources:\n- name: a\n  listen: :1\n": false,
		"sources:\n- name: a\n  database-password: x\n  database-password-file: /nowhere\n": false,
	} {
		var value any
		if err := yaml.Unmarshal([]byte(file), &value); err != nil {
			t.Fatalf("%q: %v", file, err)
		}
		_, byRelay := load(t, given{file: file, env: Environment{"KAFKA_BROKERS": "h:1"}})
		if bySchema := schema.Validate(value); (bySchema == nil) != right || (byRelay == nil) != right {
			t.Errorf("%.80q: right %v; the schema says %v, the relay %v", file, right, bySchema, byRelay)
		}
	}
}
