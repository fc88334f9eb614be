package config

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
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

// readSecret reads a secret from its file. The end of its last line does not belong to it. The error says nothing of what the file holds. again tells that the file can be read
// more than once: a pipe cannot.
func readSecret(path string) (secret Secret, again bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", false, err
	case info.IsDir():
		return "", false, fmt.Errorf("%s is a directory: name the file in it", path)
	case info.Size() > maxSecretFile:
		return "", false, fmt.Errorf("%s has %d bytes: that is no password", path, info.Size())
	}
	content, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return "", false, err
	}
	secret = Secret(strings.TrimRight(string(content), "\r\n"))
	if secret == "" {
		return "", false, fmt.Errorf("%s is empty", path)
	}
	return secret, info.Mode().IsRegular(), nil
}

// putFile reads a secret from its file.
func (l layer) putFile(s Setting, path string, o origin) error {
	if path == "" {
		return fmt.Errorf("%s names no file", o.name)
	}
	secret, again, err := readSecret(path)
	if err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	o.path = path
	if again {
		o.rotating = rotating(path, secret)
	}
	return l.put(s, string(secret), o)
}

// rotating reads the file whenever it is called. last is what it held before.
func rotating(path string, last Secret) func() Secret {
	var mu sync.Mutex // guards last
	return func() Secret {
		mu.Lock()
		defer mu.Unlock()
		if now, _, err := readSecret(path); err == nil {
			last = now
		}
		return last
	}
}

// Rotating returns what reads a secret of the source again, for each new connection, so that one that was changed in its file is used without a restart. It is nil for a secret
// that does not come from a file, or from one that can be read but once, such as a pipe. A file that cannot be read, such as one that is just being replaced, counts as unchanged:
// what was read last may still be right, and who refuses it says so. It may be called from any goroutine.
func (s *Source) Rotating(key string) func() Secret { return s.origins[key].rotating }
