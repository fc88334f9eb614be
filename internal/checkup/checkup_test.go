package checkup

import (
	"testing"

	"github.com/outbox-relay/outbox/internal/pgtest"
)

func TestAServerThatIsTooOldIsAnError(t *testing.T) {
	t.Parallel()
	if found := versionSymptoms(130022, "13.22"); len(found) != 1 || found[0].Code != "server-too-old" || !found[0].Grave {
		t.Errorf("found %+v", found)
	}
	if found := versionSymptoms(oldestVersion, "14.0"); found != nil {
		t.Errorf("of the oldest that is supported: %+v", found)
	}
}

func TestChecksRefuseATableThatCannotBe(t *testing.T) {
	t.Parallel()
	if _, err := Checks(pgtest.New(t).Pool(t), "a.b.c", Config{}); err == nil {
		t.Error("it was taken")
	}
}
