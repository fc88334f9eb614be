package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestTheModesRefuseEachOtherWhileARelayLives(t *testing.T) {
	t.Parallel()
	for mode, refusal := range map[string]struct{ other, says, status string }{
		"competing": {"leased", "stop all relays with --mode competing first", "competes for rows"},
		"leased":    {"competing", "stop all relays with --mode leased first", "8 lanes"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			env := []string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + newCluster(t, "shop.order").ListenAddrs()[0]}
			run := func(ctx context.Context, args ...string) (code int, printed string) {
				var out bytes.Buffer
				code = Run(ctx, args, strings.NewReader(""), &out, &out, env)
				return code, out.String()
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan int, 1)
			go func() {
				code, _ := run(ctx, "relay", "--mode", mode)
				ended <- code
			}()
			await(t, "the status tells of the relay", func() bool {
				_, printed := run(t.Context(), "status")
				return strings.Contains(printed, refusal.status)
			})
			if code, printed := run(t.Context(), "relay", "--once", "--mode", refusal.other, "--start-timeout", "300ms"); code != exitFailed || !strings.Contains(printed, refusal.says) {
				t.Errorf("mode %s beside it ended with %d: %s", refusal.other, code, printed)
			}
			stop()
			if code := <-ended; code != exitOK {
				t.Errorf("the relay ended with %d", code)
			}
			if code, printed := run(t.Context(), "relay", "--once", "--mode", refusal.other); code != exitOK {
				t.Errorf("mode %s after it ended with %d: %s", refusal.other, code, printed)
			}
		})
	}
}
