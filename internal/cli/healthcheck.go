package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outbox-relay/outbox/internal/config"
)

// healthcheck asks a relay of this machine, for images that have neither a shell nor curl.
func (a *app) healthcheck() *cobra.Command {
	var address, source string
	var ready bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a relay whether it lives, or is ready",
		Long: `healthcheck asks /livez of the relay that listens at --address, and prints the
answer. Without --address it asks where OUTBOX_LISTEN, or the line listen of the
file that OUTBOX_CONFIG names, has the relay listen. It is for the health checks
of containers without a shell.

With --ready it asks /readyz: that is 503 in an outage of the database or the
brokers, which a restart does not mend.

Exit codes:
  0   the relay says that it is well
  1   it says that it is not, or nobody answers in time
  2   usage
  78  configuration: no address is known`,
		Example: "  outbox healthcheck\n  outbox healthcheck --address :9090 --ready\n  outbox healthcheck --ready --source billing",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if address == "" {
				var err error
				if address, err = a.listens(ctx); err != nil {
					return err
				}
			}
			target, err := healthURL(address, source, ready)
			if err != nil {
				return &usageError{fmt.Errorf("%s %q: %w", a.named("address"), address, err)}
			}
			answer, err := askHealth(ctx, target)
			if err != nil {
				return err
			}
			fmt.Fprint(a.stdout, answer)
			return nil
		},
	}
	cmd.Flags().StringVar(&address, "address", "", "the relay's `address`, such as :9090; without it the one that OUTBOX_LISTEN or the file of OUTBOX_CONFIG says")
	cmd.Flags().StringVar(&source, "source", "", "ask for the source of this `name` alone")
	cmd.Flags().BoolVar(&ready, "ready", false, "ask /readyz in place of /livez")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	return cmd
}

// listens is where the relay of the same environment listens.
func (a *app) listens(ctx context.Context) (string, error) {
	// What else is wrong with the settings is the relay's to say.
	cfg, err := config.Load(ctx, pflag.NewFlagSet("", pflag.ContinueOnError), config.Environment(a.env))
	if cfg.Listen != "" {
		return cfg.Listen, nil
	}
	if cfg.File != "" && err != nil {
		return "", &configError{fmt.Errorf("no --address, no OUTBOX_LISTEN, and none in %s: %w", cfg.File, err)}
	}
	return "", &configError{errors.New("no --address, and no OUTBOX_LISTEN: say where the relay listens, as with outbox relay --listen")}
}

// healthURL is where to ask. A relay that listens at all addresses is asked at the loopback.
func healthURL(address, source string, ready bool) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return "", errors.New("want an address with a port, such as :9090 or 127.0.0.1:9090")
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/livez"}
	if ready {
		u.Path = "/readyz"
	}
	if source != "" {
		u.RawQuery = url.Values{"source": {source}}.Encode()
	}
	return u.String(), nil
}

// maxAnswer is more than the lines of hundreds of sources.
const maxAnswer = 64 << 10

// askHealth returns the answer, or why the relay is not well. It goes through no proxy: the relay is on this machine.
func askHealth(ctx context.Context, target string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return "", &usageError{fmt.Errorf("ask %s: %w", target, err)}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "", fmt.Errorf("nothing listens at %s: does the relay run, and with --listen?", request.URL.Host)
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("%s does not answer in time", target)
	case err != nil:
		return "", fmt.Errorf("ask for the relay's health: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("read the answer of %s: %w", target, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s says %d: %s", target, response.StatusCode, printable(strings.ReplaceAll(strings.TrimSpace(string(body)), "\n", "; ")))
	}
	return string(body), nil
}
