package rules

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const top = "../../"

// TestPromtoolIsSatisfied checks the rules and runs their unit tests.
func TestPromtoolIsSatisfied(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", top + "deploy/prometheus/outbox-rules.yml"},
		{"test", "rules", top + "deploy/prometheus/outbox-rules_test.yml"},
	} {
		// Without service discovery it needs a tenth of the code.
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "-tags", "remove_all_sd", "github.com/prometheus/prometheus/cmd/promtool"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// query is an expression with the place where it stands.
type query struct{ where, expr string }

// queries returns all expressions of the alerts and of the dashboard. What Grafana fills in is filled in.
func queries(t *testing.T) (all []query) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	text := read(t, "deploy/prometheus/outbox-rules.yml")
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all = append(all, query{r.Alert, r.Expr})
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, "deploy/grafana/outbox.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "1m", "$source", "orders")
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all = append(all, query{p.Title, fill.Replace(target.Expr)})
		}
	}
	if len(all) < 40 {
		t.Fatalf("only %d queries were found", len(all))
	}
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(top + path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// metrics returns the labels of each metric of a running relay and of a consumer, by name. Tests of those packages keep the two lists true.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{}
	for _, path := range []string{"internal/cli/testdata/metrics.txt", "inbox/inboxprom/testdata/metrics.txt"} {
		for line := range strings.Lines(string(read(t, path))) {
			fields := strings.Fields(line)
			name, names := fields[0], strings.Split(fields[2], ",")
			if fields[1] != "histogram" {
				known[name] = names
				continue
			}
			known[name+"_sum"], known[name+"_count"], known[name+"_bucket"] = names, names, append(slices.Clone(names), "le")
		}
	}
	return known
}

// scraped are the labels that Prometheus adds.
func scraped() []string { return []string{"instance", "job"} }

// problems returns what is wrong with the metrics and labels of an expression.
func problems(expr string, known map[string][]string) (found []string) {
	root, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	allowed := map[string]bool{}
	for _, l := range scraped() {
		allowed[l] = true
	}
	parser.Inspect(root, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		has, exists := known[selector.Name]
		if !exists {
			found = append(found, "there is no metric "+selector.Name)
		}
		for _, l := range has {
			allowed[l] = true
		}
		for _, m := range selector.LabelMatchers {
			if m.Name != labels.MetricName && !slices.Contains(has, m.Name) && !slices.Contains(scraped(), m.Name) {
				found = append(found, selector.Name+" has no label "+m.Name)
			}
		}
		return nil
	})
	parser.Inspect(root, func(node parser.Node, _ []parser.Node) error {
		var names []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = n.VectorMatching.MatchingLabels
			}
		}
		for _, l := range names {
			if !allowed[l] {
				found = append(found, "no metric of the expression has the label "+l)
			}
		}
		return nil
	})
	return found
}

func TestEveryQueryNamesMetricsAndLabelsThatExist(t *testing.T) {
	t.Parallel()
	known := metrics(t)
	for _, q := range queries(t) {
		for _, p := range problems(q.expr, known) {
			t.Errorf("%s: %s: %s", q.where, p, q.expr)
		}
	}
}

func TestWrongQueriesAreFound(t *testing.T) {
	t.Parallel()
	known := map[string][]string{"outbox_lanes": {"source"}, "outbox_read_seconds_bucket": {"source", "le"}}
	for expr, want := range map[string]int{
		`sum by (source) (outbox_lanes{instance="a"})`:                                0,
		`histogram_quantile(0.5, sum by (le) (rate(outbox_read_seconds_bucket[1m])))`: 0,
		`outbox_lane`:                            1,
		`outbox_lanes{topic="a"}`:                1,
		`sum by (topic) (outbox_lanes)`:          1,
		`outbox_lanes / on (class) outbox_lanes`: 1,
		`sum by (source) (outbox_lanes`:          1,
	} {
		if got := problems(expr, known); len(got) != want {
			t.Errorf("%s: found %q, want %d problems", expr, got, want)
		}
	}
}
