package advice

import (
	"os/exec"
	"testing"
)

func TestAShellReadsAWordAsItIs(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"anna", "public.outbox_event", "", "it's", "a b", `"Order Svc"."x$y"`, "`id`", "a\nb", "-x", "*", "~", "a;b"} {
		got, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+Word(word)).Output()
		if err != nil || string(got) != word {
			t.Errorf("%s is read as %q: %v", Word(word), got, err)
		}
	}
	if got, want := Grants(`public."a.b"`, "anna", "--operator"), `outbox migrate grants --table 'public."a.b"' --role anna --operator`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
