package postgres

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

func TestCheckupsRefuseATableThatCannotBe(t *testing.T) {
	t.Parallel()
	if _, err := Checkups(pgtest.New(t).Pool(t), "a.b.c", CheckupConfig{}); err == nil {
		t.Error("it was taken")
	}
}
