package outbox_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// github.com/opendefender/OpenRisk#344: an event that is appended after the commit, or beside the transaction, can be lost.
func TestAPoolOrAConnectionDoesNotCompile(t *testing.T) {
	t.Parallel()
	const file = "testdata/notx/main.go"
	if got, want := refusedLines(t, file), markedLines(t, file); !slices.Equal(got, want) {
		t.Errorf("lines that do not compile: %v, want %v", got, want)
	}
}

// refusedLines compiles a file and returns the lines that do not satisfy the transaction's interface.
func refusedLines(t *testing.T, file string) []int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "-o", os.DevNull, "./"+file).CombinedOutput()
	if err == nil {
		t.Fatal("it compiles")
	}
	var lines []int
	for _, m := range regexp.MustCompile(`main\.go:(\d+):.*does not implement \w+\.Tx`).FindAllStringSubmatch(string(out), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, n)
	}
	if all := strings.Count(string(out), "main.go:"); all == 0 || all != len(lines) {
		t.Fatalf("%d of %d errors are about the interface:\n%s", len(lines), all, out)
	}
	return lines
}

func markedLines(t *testing.T, file string) []int {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for i, line := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(line, "// refused") {
			lines = append(lines, i+1)
		}
	}
	return lines
}
