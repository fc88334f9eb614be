package cli

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox/operate"
)

// slowInbox has more than can be counted.
type slowInbox struct{ operate.Store }

func (slowInbox) CountForget(context.Context, operate.Forget) (int64, bool, error) {
	return 0, false, operate.Refuse(operate.CodeTooSlow, "narrow it by --min-id and --max-id")
}

func (slowInbox) Forget(context.Context, operate.Forget, func(int64)) (int64, error) { return 0, nil }

func TestACountThatTakesTooLongSaysHowToForgetAllTheSame(t *testing.T) {
	t.Parallel()
	s, err := operate.New(slowInbox{}, nil, operate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	f := &forgetFlags{}
	f.actorFlags.flags(cmd, "why")
	a := &app{stdout: io.Discard, stderr: io.Discard}
	_, err = a.countForget(cmd, s, f, operate.Forget{Consumer: "billing", All: true})
	if operate.CodeOf(err) != operate.CodeTooSlow || !strings.Contains(err.Error(), "--from and --until") || !strings.Contains(err.Error(), "by --yes") || strings.Contains(err.Error(), "--min-id") {
		t.Errorf("%v", err)
	}
}
