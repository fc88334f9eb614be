package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

const day = 24 * time.Hour

// days is the part of an age that is in days, at its beginning.
var days = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)d`)

// ParseAge reads a duration that may begin with days of 24 hours, such as 168h, 7d, 1.5d or 1d12h.
func ParseAge(text string) (time.Duration, error) {
	part := days.FindStringSubmatch(text)
	if part == nil {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseFloat(part[1], 64)
	if err != nil || n*float64(day) > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is too long", text)
	}
	age, rest := time.Duration(n*float64(day)), time.Duration(0)
	if len(part[0]) < len(text) {
		if rest, err = time.ParseDuration(text[len(part[0]):]); err != nil {
			return 0, err
		}
		if rest < 0 || rest > math.MaxInt64/2 {
			return 0, fmt.Errorf("%q is no duration", text)
		}
	}
	return age + rest, nil
}

// AgeVar adds a flag for an age; see [ParseAge].
func AgeVar(fs *pflag.FlagSet, value *time.Duration, name string, byDefault time.Duration, usage string) {
	*value = byDefault
	fs.Var((*ageValue)(value), name, usage)
}

// ageValue is the value of a flag.
type ageValue time.Duration

func (v *ageValue) Set(text string) error {
	age, err := ParseAge(text)
	if err == nil {
		*v = ageValue(age)
	}
	return err
}

// String is 0 for no age: the help shows no default then.
func (v *ageValue) String() string {
	if *v == 0 {
		return "0"
	}
	return time.Duration(*v).String()
}

// Type is what the help shows.
func (v *ageValue) Type() string { return "duration" }

// Want says what the value has to look like.
func (v *ageValue) Want() string { return Age.String() }
