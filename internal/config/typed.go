package config

import (
	"errors"
	"fmt"
)

// typedError is what is wrong on the command line.
type typedError struct{ error }

// Unwrap returns the problem itself.
func (e typedError) Unwrap() error { return e.error }

// Wrong marks a problem of the command line, for [Typed]; others, and nil, it returns as they are.
func Wrong(typed bool, err error) error {
	if !typed || err == nil {
		return err
	}
	return typedError{err}
}

// Typed tells that everything that is wrong stands on the command line, be it one problem or several that were joined: whoever typed it can correct it there.
func Typed(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			if !Typed(one) {
				return false
			}
		}
		return len(joined.Unwrap()) > 0
	}
	if _, ok := err.(typedError); ok { //nolint:errorlint // each level is looked at by itself: one that was joined below may be another
		return true
	}
	inner := errors.Unwrap(err)
	return inner != nil && Typed(inner)
}

// Wrong is what is wrong with a setting of the source, with the place where it was made.
func (s *Source) Wrong(key string, err error) error {
	return Wrong(s.Typed(key), fmt.Errorf("%s: %w", s.Named(key), err))
}

// wrong is what is wrong with a setting that was made here.
func (o origin) wrong(format string, args ...any) error {
	return Wrong(o.typed, fmt.Errorf("%s "+format, append([]any{o.name}, args...)...))
}
