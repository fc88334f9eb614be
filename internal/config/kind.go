package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is the form of a setting's values.
type Kind int

// The kinds, with their types in Go: string, bool, int, time.Duration twice, []string.
const (
	Text Kind = iota
	Bool
	Number
	Duration
	// Age is a duration in which days may be named; see [ParseAge].
	Age
	List
)

// String says what values of the kind look like.
func (k Kind) String() string {
	switch k {
	case Text:
		return "a text"
	case Bool:
		return "true or false"
	case Number:
		return "a whole number"
	case Duration:
		return "a duration such as 100ms"
	case Age:
		return "a duration such as 168h or 7d"
	case List:
		return "names with commas between them"
	}
	return fmt.Sprintf("kind %d", int(k))
}

// wanted says what is wanted in place of the text.
func (k Kind) wanted(text string) string {
	if _, err := strconv.ParseFloat(text, 64); err == nil && (k == Duration || k == Age) {
		return k.String() + ", with its unit: ms, s, m or h"
	}
	return k.String()
}

// parse reads a value as people write it; ok tells that it is of this kind.
func (k Kind) parse(text string) (value any, ok bool) {
	var err error
	switch k {
	case Text:
		return text, true
	case Bool:
		value, err = strconv.ParseBool(text)
	case Number:
		value, err = strconv.Atoi(text)
	case Duration:
		value, err = time.ParseDuration(text)
	case Age:
		value, err = ParseAge(text)
	case List:
		return split(text), true
	default:
		return nil, false
	}
	return value, err == nil
}

func split(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// zero is the value of a setting that has no default.
func (k Kind) zero() any {
	switch k {
	case Bool:
		return false
	case Number:
		return 0
	case Duration, Age:
		return time.Duration(0)
	case List:
		return []string(nil)
	default:
		return ""
	}
}
