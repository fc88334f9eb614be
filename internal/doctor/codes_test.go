package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// inCode finds where a code is given to a finding.
var inCode = regexp.MustCompile(`(?:\bCode: *|\.Code(?:, [a-z.A-Z]+)? = |\bwarn\(|\b(?:tableMissing|notATable|notAnOutbox) += )"([a-z0-9]+(?:-[a-z0-9]+)+)"`)

// inRow finds the codes of a row's first cell.
var inRow = regexp.MustCompile("`([a-z0-9-]+)`")

func TestTheTableOfTheManualHasEveryCodeAndNoOther(t *testing.T) {
	t.Parallel()
	var given []string
	for _, pattern := range []string{"*.go", "../checkup/*.go", "../../migrate/check*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, m := range inCode.FindAllStringSubmatch(read(t, name), -1) {
				given = append(given, m[1])
			}
		}
	}
	_, section, _ := strings.Cut(read(t, "../../docs/operating.md"), "\n## What the doctor finds\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range inRow.FindAllStringSubmatch(cells[1], -1) {
				documented = append(documented, m[1])
			}
		}
	}
	slices.Sort(given)
	slices.Sort(documented)
	given = slices.Compact(given)
	if len(given) < 40 || !slices.Equal(given, documented) {
		t.Errorf("the code has     %q\nthe manual has %q", given, documented)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
