package engine

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"
)

// ProcessName names a relay that nobody has named: two of one host differ.
func ProcessName() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", cmp.Or(host, "unknown"), os.Getpid())
}

// Complaint is what was last said of terms that do not begin. The zero value has said nothing.
type Complaint struct {
	text string
	at   time.Time
}

// complainEvery is how long the same reason is not said again while no term begins: the attempts follow each other closely.
const complainEvery = 30 * time.Second

// Say says why a term ended and when the next one begins; the same reason once in a while. A relay that has never worked, which opened tells, is not interrupted, it cannot start.
func (c *Complaint) Say(log *slog.Logger, now time.Time, opened bool, err error, pause time.Duration) {
	what := "cannot start yet"
	if opened {
		what = "relay interrupted"
	}
	text := what + withoutNumbers(err.Error())
	if c.text == text && now.Sub(c.at) < complainEvery {
		return
	}
	*c = Complaint{text, now}
	log.Warn(what, "error", err, "again_in", Rounded(pause).String())
}

// Stopped says that a relay has ended because it was told to. What an error says is for whoever gets it.
func Stopped(ctx context.Context, log *slog.Logger, err error, published int64) {
	if ctx.Err() != nil && err == nil {
		log.InfoContext(ctx, "stopped", "published", published)
	}
}

// withoutNumbers leaves out what is another at each attempt though the reason is the same: how long a lease still lasts, a port of this side.
func withoutNumbers(text string) string {
	return regexp.MustCompile(`([0-9.]+[hmnsµ]*)+`).ReplaceAllString(text, "")
}

// Warn passes on what a source warns of and is not in said, where it is noted: a source is opened at every attempt.
func Warn(log *slog.Logger, table string, warnings []string, said map[string]bool) {
	for _, w := range warnings {
		if said[w] {
			continue
		}
		said[w] = true
		log.Warn("source", "table", table, "warning", w)
	}
}

// Rounded is a time as people read it.
func Rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// WithKey adds a partition key to the attributes of a line if keys are asked for.
func WithKey(asked bool, key string, attrs ...any) []any {
	if !asked {
		return attrs
	}
	return append(attrs, "key", Short(key))
}

// Short bounds a text of the table for the log: a topic that is wrong may be of any length.
func Short(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
