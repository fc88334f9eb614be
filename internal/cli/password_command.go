package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const (
	// commandLimit is how long a command for a password may take: less than a call to the database may, which waits for it.
	commandLimit = 10 * time.Second
	// passwordFresh is how long a password is used for further connections: a relay makes five at once. It is shorter than any token lives, and
	// after one that was refused a connection is tried again with another soon.
	passwordFresh = 10 * time.Second
	// mostPrinted bounds what is kept of what the command prints: more than any password has.
	mostPrinted = 64 << 10
	// longestComplaint bounds what an error repeats of what the command says.
	longestComplaint = 500
)

// passwordCommand prints the password of new connections. It is a program with its arguments, and no line for a shell.
type passwordCommand struct {
	argv []string
	// name is how it was told: by which variable, which line.
	name string
	now  func() time.Time
	// turn holds one token; its holder alone touches what follows, and runs the command. A channel, so that waiting for it obeys the context.
	turn chan struct{}
	last string
	at   time.Time
}

// newPasswordCommand returns nil when there is no command.
func newPasswordCommand(argv []string, name string) *passwordCommand {
	if len(argv) == 0 {
		return nil
	}
	return &passwordCommand{argv: argv, name: name, now: time.Now, turn: make(chan struct{}, 1)}
}

// check finds what waiting does not mend.
func (p *passwordCommand) check() error {
	if _, err := exec.LookPath(p.argv[0]); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// password runs the command, unless it has done so a moment ago. No error has anything in it of what the command prints on stdout.
func (p *passwordCommand) password(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("%s: wait for %s: %w", p.name, p.argv[0], ctx.Err())
	}
	if p.last != "" && p.now().Sub(p.at) < passwordFresh {
		return p.last, nil
	}
	password, err := p.run(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: %s %w", p.name, p.argv[0], err)
	}
	p.last, p.at = password, p.now()
	return password, nil
}

func (p *passwordCommand) run(ctx context.Context) (string, error) {
	var out, complaint ending
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	// What the command has started itself may keep its output open.
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("gives no password in time, of at most %s: %w", commandLimit, ctx.Err())
	}
	if err != nil {
		return "", fmt.Errorf("fails: %w%s", err, complained(string(complaint.text)))
	}
	password := strings.TrimRight(string(out.text), "\r\n")
	switch {
	case password == "":
		return "", errors.New("prints no password" + complained(string(complaint.text)))
	case out.cut || strings.ContainsAny(password, "\r\n\x00"):
		return "", errors.New("prints more than a line: want the password alone")
	}
	return password, nil
}

// ending keeps the end of what is written; cut tells that there was more.
type ending struct {
	text []byte
	cut  bool
}

// Write is of io.Writer.
func (e *ending) Write(p []byte) (int, error) {
	e.text = append(e.text, p...)
	if over := len(e.text) - mostPrinted; over > 0 {
		e.text, e.cut = append(e.text[:0], e.text[over:]...), true
	}
	return len(p), nil
}

// complained is the end of what a command says on stderr: there stands the reason.
func complained(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return ""
	}
	if len(text) > longestComplaint {
		text = "…" + strings.ToValidUTF8(text[len(text)-longestComplaint:], "")
	}
	return ": " + text
}
