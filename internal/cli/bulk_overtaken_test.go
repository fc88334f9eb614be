package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/operate"
)

func TestTheKeysThatARestoreMeetsHaveALineEach(t *testing.T) {
	t.Parallel()
	o := &operate.OvertakenEvents{Events: 20, Keys: 12, Named: []operate.KeyCount{{Topic: "shop.order", PartitionKey: "order \x1b", Count: 3}, {Topic: "shop.order", Count: 1}}}
	var out bytes.Buffer
	(&app{}).describe(&out, operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{}}, operate.Plan{Count: 20, Overtaken: o, Notes: []string{"first"}})
	want := `restore would touch 20 events
  note: first
  these keys have the most events that come behind newer ones:
    3 of key "order \x1b" of topic shop.order
    1 of key "" of topic shop.order
    and 10 keys more
`
	if out.String() != strings.ReplaceAll(want, "\\x1b", `\x1b`) {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}

// Of one event the notes say it all.
func TestTheKeyOfASingleRestoreIsNotCounted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	(&app{}).describe(&out, operate.Bulk{Verb: operate.VerbRestore, Events: &operate.EventFilter{}}, operate.Plan{Count: 1, Overtaken: &operate.OvertakenEvents{Events: 1, Keys: 1}, Notes: []string{"first"}})
	if want := "restore would touch 1 event\n  note: first\n"; out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}
