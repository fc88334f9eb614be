package cli

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/fleet"
)

// relayLike answers as a relay that lives and is not ready.
func relayLike(t *testing.T) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.String() {
		case "/livez":
			fmt.Fprintln(w, "orders: ok\nbilling: ok")
		case "/livez?source=a+b":
			fmt.Fprintln(w, "ok")
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "orders: starting\nbilling: ok")
		}
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestHealthcheckAsksTheRelay(t *testing.T) {
	t.Parallel()
	address := relayLike(t)
	_, port, _ := net.SplitHostPort(address)
	file := filepath.Join(t.TempDir(), "outbox.yaml")
	if err := os.WriteFile(file, []byte("listen: "+address+"\nno-such-setting: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const nobody = "127.0.0.1:1"
	for name, c := range map[string]struct {
		args, env []string
		code      int
		says      string
	}{
		"alive":                      {[]string{"--address", address}, nil, exitOK, "orders: ok\nbilling: ok\n"},
		"every address":              {[]string{"--address", ":" + port}, nil, exitOK, "orders: ok"},
		"by the environment":         {nil, []string{"OUTBOX_LISTEN=0.0.0.0:" + port}, exitOK, "orders: ok"},
		"by the file":                {nil, []string{"OUTBOX_CONFIG=" + file}, exitOK, "orders: ok"},
		"one source":                 {[]string{"--source", "a b"}, []string{"OUTBOX_LISTEN=" + address}, exitOK, "ok\n"},
		"not ready":                  {[]string{"--ready"}, []string{"OUTBOX_LISTEN=" + address}, exitFailed, "/readyz says 503: orders: starting; billing: ok"},
		"through no proxy":           {nil, []string{"OUTBOX_LISTEN=" + address, "HTTP_PROXY=http://127.0.0.1:1"}, exitOK, "orders: ok"},
		"nobody there":               {[]string{"--address", nobody}, nil, exitFailed, "nothing listens at " + nobody + ": does the relay run, and with --listen?"},
		"no address":                 {nil, nil, exitConfig, "no --address, and no OUTBOX_LISTEN"},
		"a file that cannot be read": {nil, []string{"OUTBOX_CONFIG=/no/such/file"}, exitConfig, "/no/such/file"},
		"an address without a port":  {[]string{"--address", "localhost"}, nil, exitUsage, `--address "localhost": want an address with a port`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			code := Run(t.Context(), append([]string{"healthcheck"}, c.args...), strings.NewReader(""), &stdout, &stderr, c.env)
			if code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.says) {
				t.Errorf("exit code %d, want %d; says %q%q, want %q", code, c.code, stdout.String(), stderr.String(), c.says)
			}
		})
	}
}

func TestProfilesAreServedOnlyWhenAskedFor(t *testing.T) {
	t.Parallel()
	relays := fleet.New[*sourceRelay](nil, fleet.Config{})
	for on, want := range map[bool]int{false: http.StatusNotFound, true: http.StatusOK} {
		server := httptest.NewServer(served{relays: relays, pprof: on}.handler())
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
			if code, _ := get(t, server.URL+path); code != want {
				t.Errorf("profiles %t: %s is %d, want %d", on, path, code, want)
			}
		}
		if _, body := get(t, server.URL+"/"); strings.Contains(body, "pprof") != on {
			t.Errorf("profiles %t: / says %q", on, body)
		}
		server.Close()
	}
}

func TestProfilesAreASetting(t *testing.T) {
	t.Parallel()
	cmd := (&app{}).relay()
	cfg, _ := config.Load(cmd.Context(), cmd.Flags(), config.Environment{"OUTBOX_PPROF": "true"})
	if !cfg.Pprof {
		t.Error("OUTBOX_PPROF=true has no effect")
	}
}
