package migrate

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestNumbersOfMigrationsHaveNoGaps(t *testing.T) {
	t.Parallel()
	for name, names := range map[string][]string{
		"gap":       {"001_a", "003_b"},
		"twice":     {"001_a", "001_b"},
		"from two":  {"002_a"},
		"no number": {"first_a"},
		"no name":   {"001"},
	} {
		fsys := fstest.MapFS{}
		for _, n := range names {
			fsys["sql/"+n+".up.sql"] = &fstest.MapFile{Data: []byte("SELECT 1;")}
		}
		if all, err := readMigrations(fsys); err == nil {
			t.Errorf("%s was accepted: %v", name, all)
		}
	}
}

func TestChecksumsDoNotDependOnLineEnds(t *testing.T) {
	t.Parallel()
	a, err := newMigration("001_a.up.sql", "SELECT 1;\nSELECT 2;\n")
	if err != nil {
		t.Fatal(err)
	}
	b, err := newMigration("001_a.up.sql", "SELECT 1;\r\nSELECT 2;\r\n")
	if err != nil {
		t.Fatal(err)
	}
	c, err := newMigration("001_a.up.sql", "SELECT 1;\nSELECT 3;\n")
	if err != nil {
		t.Fatal(err)
	}
	if a.Checksum != b.Checksum || a.Checksum == c.Checksum || len(a.Checksum) != 64 {
		t.Errorf("checksums %s, %s, %s", a.Checksum, b.Checksum, c.Checksum)
	}
}

func TestOnlyWhatIsMissingIsPending(t *testing.T) {
	t.Parallel()
	all := []Migration{{Version: 1, Checksum: "a"}, {Version: 2, Checksum: "b"}, {Version: 3, Checksum: "c"}}
	left, err := pending(all, all[:1])
	if err != nil || len(left) != 2 || left[0].Version != 2 {
		t.Errorf("after the first: %v, %v", left, err)
	}
	if left, err := pending(all, all); err != nil || left != nil {
		t.Errorf("after all: %v, %v", left, err)
	}
	if _, err := pending(all, []Migration{{Version: 0, Name: "zero"}}); err == nil || !strings.Contains(err.Error(), "zero") {
		t.Errorf("an impossible version: %v", err)
	}
}
