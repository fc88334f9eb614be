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
	text := isTerminal(a.stderr) || a.asJSON
	if format == logText || format != logJSON && text {
		return slog.New(slog.NewTextHandler(out, opts))
	}
	return slog.New(slog.NewJSONHandler(inertLines{out}, opts))
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

// shorten says a failed connection as the command line does, in one line.
func shorten(_ []string, attr slog.Attr) slog.Attr {
	err, ok := attr.Value.Any().(error)
	var connect *pgconn.ConnectError
	if ok && errors.As(err, &connect) {
		text := strings.ReplaceAll(explainConnection(connect, err).Error(), "\n  hint: ", "; ")
		return slog.String(attr.Key, text)
	}
	return attr
}
