package config

import (
	"strings"
	"testing"
)

// Whoever looks at a database need not be able to read what is for Kafka.
func TestWhatIsNotOfTheDatabaseIsNotRead(t *testing.T) {
	t.Parallel()
	const good = "database-url: postgres://h/d\nsources:\n- name: a\n"
	for name, c := range map[string]struct {
		file, variable, want string
	}{
		"a secret of Kafka that is not here":         {file: "  sasl-password-file: /not/here\n"},
		"by a variable":                              {variable: "OUTBOX_SOURCE_A__SASL_PASSWORD_FILE=/not/here"},
		"a number that is none":                      {file: "  batch-size: many\n"},
		"a password of the database that is not":     {file: "  database-password-file: /not/here\n", want: "/not/here"},
		"by a variable, of the database":             {variable: "OUTBOX_SOURCE_A__DATABASE_PASSWORD_FILE=/not/here", want: "/not/here"},
		"a table by a name that is nearly a table's": {file: "  tabel: other\n", want: "did you mean table?"},
	} {
		env := Environment{"OUTBOX_CONFIG": write(t, "outbox.yaml", good+c.file)}
		if variable, value, given := strings.Cut(c.variable, "="); given {
			env[variable] = value
		}
		source, err := Database(t.Context(), nil, env, "a")
		switch {
		case c.want == "" && (err != nil || source.DatabaseURL != "postgres://h/d"):
			t.Errorf("%s: %+v, %v", name, source, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}
