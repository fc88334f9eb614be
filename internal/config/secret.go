package config

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox/internal/patience"
)

// Secret is a text that no format and no log prints.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// LogValue is String, for logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// maxSecretFile is more than any password has.
const maxSecretFile = 64 << 10

// password is what a secret's file was to be.
const password = "password"

// rereadPatience is how long a file may take that is read again, for a new connection.
const rereadPatience = 2 * time.Second

// secretIn is the secret that a file holds. The end of its last line does not belong to it. The error says nothing of what the file holds.
func secretIn(path string, content []byte) (Secret, error) {
	secret := Secret(strings.TrimRight(string(content), "\r\n"))
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}

// putFile reads a secret from its file.
func (l layer) putFile(ctx context.Context, s Setting, path string, o origin) error {
	if err := l.judged(s, l.readSecret(ctx, s, path, o)); err != nil {
		return &SecretError{err}
	}
	return nil
}

// SecretError tells that the file of a secret cannot be used.
type SecretError struct{ error }

// Unwrap returns why.
func (e *SecretError) Unwrap() error { return e.error }

func (l layer) readSecret(ctx context.Context, s Setting, path string, o origin) error {
	if path == "" {
		return fmt.Errorf("%s names no file", o.name)
	}
	content, err := patience.File(ctx, filePatience, path, password, maxSecretFile)
	if err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	secret, err := secretIn(path, content.Bytes)
	if err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	o.path = path
	if content.Regular {
		o.rotating = rotating(path, secret)
	}
	return l.put(s, string(secret), o)
}

// rotating reads the file whenever it is called. last is what it held before.
func rotating(path string, last Secret) func() Secret {
	again := patience.NewAgain(last, rereadPatience, func() (Secret, error) {
		content, err := patience.RegularFile(path, password, maxSecretFile)
		if err != nil {
			return "", err
		}
		return secretIn(path, content)
	})
	return func() Secret { return again.Read(context.Background()) }
}

// Rotating returns what reads a secret of the source again, for each new connection, so that one that was changed in its file is used without a restart. It is nil for a secret
// that does not come from a file, or from one that can be read but once, such as a pipe. A file that cannot be read, such as one that is just being replaced, or that does not answer within two seconds, counts as unchanged:
// what was read last may still be right, and who refuses it says so. It may be called from any goroutine.
func (s *Source) Rotating(key string) func() Secret { return s.origins[key].rotating }

// SecretFile is a file that holds a secret.
type SecretFile struct {
	// Name is where the file is named, and Path is the file.
	Name, Path string
}

// SecretFiles are the files that the source's secrets were read from, and the key of its client certificate for Kafka, by their paths.
func (s *Source) SecretFiles() (files []SecretFile) {
	for _, o := range s.origins {
		if o.path != "" {
			files = append(files, SecretFile{o.name, o.path})
		}
	}
	if s.TLSKey != "" {
		files = append(files, SecretFile{s.Named("tls-key"), s.TLSKey})
	}
	slices.SortFunc(files, func(a, b SecretFile) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Name, b.Name))
	})
	return files
}
