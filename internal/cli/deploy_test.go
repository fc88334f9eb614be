package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// alert is what a test looks at of one.
type alert struct {
	Alert, Expr string
	Annotations struct{ Summary, Description, Runbook string }
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	text, err := os.ReadFile("../../deploy/prometheus/outbox-rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			a := alert{Alert: r.Alert, Expr: r.Expr}
			a.Annotations.Summary, a.Annotations.Description, a.Annotations.Runbook = r.Annotations["summary"], r.Annotations["description"], r.Annotations["runbook_url"]
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		t.Fatal("the file has no alerts")
	}
	return all
}

// anchors are what links to the headings of a document end with.
func anchors(t *testing.T, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		anchor := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(anchor, " ", "-"))
	}
	return all
}

// Whoever is woken up finds what to do, and every alert that is told of exists.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	t.Parallel()
	var names []string
	for _, a := range alerts(t) {
		names = append(names, strings.ToLower(a.Alert))
		path, anchor, _ := strings.Cut(a.Annotations.Runbook, "#")
		if !strings.HasPrefix(path, "docs/") || !slices.Contains(anchors(t, path), anchor) {
			t.Errorf("%s: there is no %s", a.Alert, a.Annotations.Runbook)
		}
		if a.Annotations.Summary == "" || a.Annotations.Description == "" {
			t.Errorf("%s has no summary or no description", a.Alert)
		}
	}
	for _, anchor := range anchors(t, "docs/operating.md") {
		if strings.HasPrefix(anchor, "outbox") && !strings.Contains(anchor, "-") && !slices.Contains(names, anchor) {
			t.Errorf("docs/operating.md tells what to do about %s, and there is no such alert", anchor)
		}
	}
}

// metricNames are those of the two lists, and what their histograms are asked for.
func metricNames(t *testing.T) (names []string) {
	t.Helper()
	for _, path := range []string{"testdata/metrics.txt", "../../inbox/inboxprom/testdata/metrics.txt"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			name, rest, _ := strings.Cut(line, " ")
			names = append(names, name)
			if strings.HasPrefix(rest, "histogram ") {
				names = append(names, name+"_bucket", name+"_sum", name+"_count")
			}
		}
	}
	return names
}

// A metric that was renamed leaves an empty panel, or an alert that never fires. Module vet/rules looks closer, with Prometheus' own parser.
func TestDashboardAndAlertsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := metricNames(t)
	dashboard, err := os.ReadFile("../../deploy/grafana/outbox.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(dashboard) {
		t.Error("the dashboard is no JSON")
	}
	texts := []string{string(dashboard)}
	for _, a := range alerts(t) {
		texts = append(texts, a.Expr)
	}
	named := map[string]bool{}
	for _, text := range texts {
		for _, name := range regexp.MustCompile(`\boutbox_[a-z_]+`).FindAllString(text, -1) {
			named[name] = true
			if !slices.Contains(known, name) {
				t.Errorf("%s is named, and there is no such metric", name)
			}
		}
	}
	for _, name := range known {
		if !strings.HasSuffix(name, "_bucket") && !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") && !named[name] && !named[name+"_bucket"] && !named[name+"_sum"] {
			t.Errorf("neither the dashboard nor an alert shows %s", name)
		}
	}
}
