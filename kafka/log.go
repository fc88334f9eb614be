package kafka

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// repeatAfter is how long the same message of the client stays silent: during an outage it says the same several times a second.
const repeatAfter = 30 * time.Second

// clientLogger hands the client's warnings to slog, each text at most once in repeatAfter.
type clientLogger struct {
	log *slog.Logger
	now func() time.Time
	// secrets are what must not be said.
	secrets *secrets

	mu   sync.Mutex
	last map[string]time.Time
}

func newClientLogger(log *slog.Logger, now func() time.Time, s *secrets) *clientLogger {
	return &clientLogger{log: log, now: now, secrets: s, last: map[string]time.Time{}}
}

// Level implements kgo.Logger.
func (l *clientLogger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (l *clientLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if !l.due(msg) {
		return
	}
	keyvals = slices.Clone(keyvals)
	for i, value := range keyvals {
		if err, ok := value.(error); ok {
			keyvals[i] = l.secrets.discreet(err)
		}
	}
	if level == kgo.LogLevelError {
		l.log.Error("kafka client: "+msg, keyvals...)
		return
	}
	l.log.Warn("kafka client: "+msg, keyvals...)
}

func (l *clientLogger) due(msg string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if last, ok := l.last[msg]; ok && now.Sub(last) < repeatAfter {
		return false
	}
	l.last[msg] = now
	return true
}
