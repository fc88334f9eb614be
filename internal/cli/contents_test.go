package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What is not in the list at the top is not found by whoever is in a hurry.
func TestTheContentsOfTheOperatorsGuideNameEverySection(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	contents, _, _ := strings.Cut(string(text), "\n## ")
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(contents, "["+heading[1]+"](#") {
			t.Errorf("the section %q is not in the list at the top of docs/operating.md", heading[1])
		}
	}
}

// A link into a guide leads to a heading of it.
func TestLinksBetweenTheGuidesLeadSomewhere(t *testing.T) {
	t.Parallel()
	guides, err := os.ReadDir("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([a-z]+\.md)?#([^)]+)\)`)
	for _, guide := range guides {
		if !strings.HasSuffix(guide.Name(), ".md") {
			continue
		}
		text, err := os.ReadFile("../../docs/" + guide.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range link.FindAllStringSubmatch(string(text), -1) {
			to := l[1]
			if to == "" {
				to = guide.Name()
			}
			if found := anchors(t, "docs/"+to); !slices.Contains(found, l[2]) {
				t.Errorf("docs/%s: %s#%s leads nowhere", guide.Name(), to, l[2])
			}
		}
	}
}
