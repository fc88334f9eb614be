package cli

import (
	"errors"
	"io"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox/internal/config"
)

// Forms of the log.
const (
	logAuto = "auto"
	logText = "text"
	logJSON = "json"
)

// relayLogger is the log of a relay, as its settings say.
func (a *app) relayLogger(out io.Writer, cfg *config.Config) *slog.Logger {
	return a.formatted(out, logLevel(cfg), cfg.LogFormat)
}

// logger writes text to a terminal and JSON to anything else; out is stderr or stands before it.
func (a *app) logger(out io.Writer, level slog.Level) *slog.Logger {
	return a.formatted(out, level, logAuto)
}

func (a *app) formatted(out io.Writer, level slog.Level, format string) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: shorten}
	if !a.logsJSON(format) {
		return slog.New(slog.NewTextHandler(out, opts))
	}
	return slog.New(slog.NewJSONHandler(inertLines{out}, opts))
}

// logsJSON tells that a log of this format is lines of JSON.
func (a *app) logsJSON(format string) bool {
	return format == logJSON || format != logText && !isTerminal(a.stderr) && !a.asJSON
}

// logLevel is the least level that is written. A relay that runs once shows its progress, and has a report at its end.
func logLevel(cfg *config.Config) slog.Level {
	var level slog.Level
	switch {
	case cfg.LogLevel != "" && level.UnmarshalText([]byte(cfg.LogLevel)) == nil:
		return level
	case cfg.Verbose:
		return slog.LevelDebug
	case cfg.Once:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// shorten says a failed connection as the command line does, and every error in one line.
func shorten(_ []string, attr slog.Attr) slog.Attr {
	err, ok := attr.Value.Any().(error)
	if !ok {
		return attr
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return slog.String(attr.Key, inOneLine(explainConnection(connect, err).Error()))
	}
	if brokers := explainBrokers(err); brokers != nil {
		return slog.String(attr.Key, inOneLine(brokers.Error()))
	}
	if text := err.Error(); strings.Contains(text, "\n") {
		return slog.String(attr.Key, inOneLine(text))
	}
	return attr
}

// inOneLine joins the lines of an error: what a line with a colon at its end announces follows it, and a remedy follows what it mends.
func inOneLine(text string) string {
	var joined string
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "hint: ")
		switch {
		case line == "":
		case joined == "" || strings.HasSuffix(joined, ":"):
			joined = strings.TrimSpace(joined + " " + line)
		default:
			joined += "; " + line
		}
	}
	return joined
}
