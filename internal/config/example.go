package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SchemaFile is the name of the schema that the example file names to editors: beside it, as outbox config schema writes it.
const SchemaFile = "outbox.schema.json"

const exampleHead = `# yaml-language-server: $schema=` + SchemaFile + `
# Settings of outbox relay --config outbox.yaml. The line above is for editors; outbox config schema > ` + SchemaFile + ` makes what it names.
#
# Every line is optional. A line that begins with # and a name shows the default, or an example where there is none: take the # away to set it.
# A setting goes by one name everywhere: poll-interval here, --poll-interval on the command line, OUTBOX_POLL_INTERVAL in the environment.
# outbox config validate outbox.yaml says what is wrong with the file, outbox config print what comes of it and where each value is from.
`

// exampleSources show what a list is for.
const exampleSources = `
# ---- Several sources
# One process serves them all, each with connections, limits and a Kafka client of its own. What stands above is for all of them, unless one says
# something else. Without this list there is one source, by the settings above.

sources:
  # letters a to z, digits and dashes: the label in metrics, and part of the source's variables, such as OUTBOX_SOURCE_ORDERS__TABLE
  - name: orders
    database-url: postgres://relay@db-1:5432/shop
    #database-password-file: /run/secrets/shop
    #topics: [shop.order, shop.payment]
    # park: the key waits for an operator; dead-letter, skip: the event is moved to outbox.dead_event and its key goes on.
    # The first policy whose pattern is the topic's counts.
    #on-failure:
    #  - shop.audit.*=skip
    #  - shop.payment.*=park park-scope=aggregate
    #  - shop.*=dead-letter topic=dead.{topic} attempts=3 backoff=1s..5m

  # another table of the same database
  - name: billing
    database-url: postgres://relay@db-1:5432/shop
    table: billing.outbox_event
    settle: delete

  # another database, another cluster, less haste
  - name: analytics
    database-url: host=db-2 dbname=analytics user=relay
    brokers: analytics-kafka:9092
    poll-interval: 5s
    max-in-flight-bytes: 8388608
`

// Example is a file of settings that shows all of them, each with what it means.
func Example() string {
	var b strings.Builder
	b.WriteString(exampleHead)
	for _, g := range groups() {
		fmt.Fprintf(&b, "\n# ---- %s\n", g.title)
		for _, s := range g.settings {
			if s.Scope != Run {
				s.example(&b)
			}
		}
	}
	b.WriteString(exampleSources)
	return b.String()
}

// example writes the setting's lines.
func (s Setting) example(b *strings.Builder) {
	key, meaning := s.Key, s.meaning()
	if s.Secret {
		key = s.Key + fileSuffix
		meaning += fmt.Sprintf(": the file that holds it, which is read again for each new connection; or %s, better not in this file", s.Key)
	}
	b.WriteString("\n")
	for _, line := range wrapped(meaning, exampleWidth) {
		b.WriteString("# " + line + "\n")
	}
	off := "#"
	if s.needed {
		off = ""
	}
	fmt.Fprintf(b, "%s%s: %s\n", off, key, s.exampleValue())
}

// exampleWidth is the longest line of a comment.
const exampleWidth = 120

// exampleValue is written as YAML.
func (s Setting) exampleValue() string {
	text := s.Example
	if text == "" {
		text = s.Default
	}
	switch {
	case s.Kind == List:
		return "[" + strings.Join(split(text), ", ") + "]"
	case text == "" && s.Kind != Text:
		return fmt.Sprint(s.Kind.zero())
	case s.Kind != Text:
		return text
	}
	// A text can always be written as YAML.
	quoted, _ := yaml.Marshal(text)
	return strings.TrimSpace(string(quoted))
}

// wrapped breaks a text into lines of at most so many bytes, between words.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
