package broken

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestEveryDescriptionFitsTheCode(t *testing.T) {
	t.Parallel()
	for _, name := range append(Names(), Shifted) {
		file, err := Overlay("../../..", t.TempDir(), name)
		if err != nil {
			t.Error(err)
			continue
		}
		var list struct{ Replace map[string]string }
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		for original, changed := range list.Replace {
			a, errA := os.ReadFile(original)
			b, errB := os.ReadFile(changed)
			if errA != nil || errB != nil || string(a) == string(b) {
				t.Errorf("%s: %s and %s: %v, %v, equal %v", name, original, changed, errA, errB, string(a) == string(b))
			}
		}
		if reason, err := Reason(name); err != nil || reason == "" {
			t.Errorf("%s has no reason: %v", name, err)
		}
	}
}

func TestADescriptionThatDoesNotFitIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, sub := range []string{"/relay", "/kafka"} {
		if err := os.Mkdir(dir+sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	twice := strings.Repeat("\t\tif k.admission != g.admission {\n", 2)
	for _, text := range []string{"package relay\n", twice} {
		if err := os.WriteFile(dir+"/relay/gate.go", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Overlay(dir, t.TempDir(), "no-gate")
		if err == nil || !strings.Contains(err.Error(), "relay/gate.go says") {
			t.Errorf("for %q: %v", text, err)
		}
	}
	if _, err := Overlay(dir, t.TempDir(), "no-such"); err == nil {
		t.Error("an unknown name is no error")
	}
}

func TestSeveralDescriptionsAreOneBuild(t *testing.T) {
	t.Parallel()
	file, err := Overlay("../../..", t.TempDir(), Shifted, "wall-clock-only")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/src/time/time.go", "/relay/lease.go"} {
		if !strings.Contains(string(text), path+`":`) {
			t.Errorf("%s is not replaced: %s", path, text)
		}
	}
}
