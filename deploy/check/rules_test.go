package check

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rule is an alert of Prometheus.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

type ruleGroups struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

const rulesFile = "../prometheus/outbox-rules.yml"

func readRules(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A chart reads nothing that is outside of it.
func TestTheChartHasTheAlertsOfPrometheus(t *testing.T) {
	t.Parallel()
	if string(readRules(t, rulesFile)) != string(readRules(t, chart+"/files/outbox-rules.yml")) {
		t.Errorf("the chart has other alerts: cp deploy/prometheus/outbox-rules.yml deploy/helm/outbox-relay/files/")
	}
}

// narrowed finds a metric that is looked at in this release alone.
var narrowed = regexp.MustCompile(`\b(outbox_[a-z_]+)\{namespace="orders",service="events"(,?)`)

// original takes back what the chart has added to an expression.
func original(expr string) string {
	return strings.ReplaceAll(narrowed.ReplaceAllStringFunc(expr, func(s string) string {
		m := narrowed.FindStringSubmatch(s)
		return m[1] + "{"
	}), "{}", "")
}

func TestTheAlertsOfTheChartAreThoseOfRelaysForItsRelease(t *testing.T) {
	t.Parallel()
	var file ruleGroups
	if err := yaml.Unmarshal(readRules(t, rulesFile), &file); err != nil {
		t.Fatal(err)
	}
	var want []rule
	for _, g := range file.Groups {
		if g.Name == "outbox-relay" {
			want = g.Rules
		}
	}
	want = slices.DeleteFunc(want, func(r rule) bool { return r.Alert == "OutboxLeaseLost" })
	var rendered struct{ Spec ruleGroups }
	text := mustRender(t, "testdata/whole.values.yaml")["outbox-relay/templates/prometheusrule.yaml"]
	if err := yaml.Unmarshal([]byte(text), &rendered); err != nil {
		t.Fatal(err)
	}
	got := rendered.Spec.Groups[0].Rules
	if len(got) != len(want) || len(want) < 14 {
		t.Fatalf("%d alerts, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if w.Alert == "OutboxBacklogOld" {
			w.Expr = strings.Replace(w.Expr, "> 60", "> 120", 1)
		}
		if original(g.Expr) != w.Expr || strings.Count(g.Expr, `service="events"`) != strings.Count(g.Expr, "outbox_") {
			t.Errorf("%s asks %s\nwant the same of this release as %s", w.Alert, g.Expr, w.Expr)
		}
		w.Annotations["runbook_url"] = "https://docs.example/outbox/" + w.Annotations["runbook_url"]
		for name, text := range w.Annotations {
			if g.Annotations[name] != text {
				t.Errorf("%s: the annotation %s is %q, want %q", w.Alert, name, g.Annotations[name], text)
			}
		}
		if g.Alert != w.Alert || g.For != w.For || g.Labels["severity"] != w.Labels["severity"] {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
}

func TestAnAlertThatIsNoneCannotBeLeftOut(t *testing.T) {
	t.Parallel()
	values := readValues(t, "testdata/whole.values.yaml")
	values["prometheusRule"] = map[string]any{"enabled": true, "without": []any{"OutboxLeaseLoss"}}
	if _, err := render(values); err == nil || !strings.Contains(err.Error(), "prometheusRule.without names OutboxLeaseLoss, which is none of the alerts: OutboxRelayMissing, ") {
		t.Errorf("rendered with %v", err)
	}
}
