package config

import "fmt"

// place is where the file begins to speak of a source.
func (f *file) place(e entry) string {
	if e.line == 0 {
		return f.name
	}
	return fmt.Sprintf("%s:%d", f.name, e.line)
}

// problems are what the settings of a source lack together.
func (s *Source) problems() []error {
	var problems []error
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(s.Where()+format, args...))
	}
	if len(s.Brokers) == 0 && s.Lacks("brokers") {
		add("no brokers: set %s", s.How("brokers", "KAFKA_BROKERS, such as kafka-1:9092,kafka-2:9092, or --brokers"))
	}
	s.tlsProblems(add)
	s.saslProblems(add)
	return problems
}

// How says by what a setting of the source can be made: usual, when the source has no name, else its line or its variable.
func (s *Source) How(key, usual string) string {
	if s.Name == "" {
		return usual
	}
	return fmt.Sprintf("%s in the file, or %s", key, (Setting{Key: key}).variableOf(s.Name))
}
