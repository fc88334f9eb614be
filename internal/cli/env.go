package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usualNames are variables that go by another name everywhere else; they are read when the flag's own is not set.
var usualNames = map[string]string{
	"database-url":   "DATABASE_URL",
	"brokers":        "KAFKA_BROKERS",
	"tls":            "KAFKA_TLS_ENABLED",
	"sasl-mechanism": "KAFKA_SASL_MECHANISM",
	"sasl-username":  "KAFKA_SASL_USERNAME",
}

// fromEnvironment sets the flags that the command line does not, and reports everything that is wrong with them together.
func (a *app) fromEnvironment(cmd *cobra.Command) error {
	var problems []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" {
			return
		}
		for _, name := range envNames(f.Name) {
			value := a.getenv(name)
			if value == "" {
				continue
			}
			if err := cmd.Flags().Set(f.Name, value); err != nil {
				problems = append(problems, fmt.Errorf("environment variable %s: %q is no %s", name, value, f.Value.Type()))
			}
			return
		}
	})
	if len(problems) > 0 {
		return &configError{errors.Join(problems...)}
	}
	return nil
}

func envNames(flag string) []string {
	names := []string{"OUTBOX_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
	if usual := usualNames[flag]; usual != "" {
		names = append(names, usual)
	}
	return names
}
