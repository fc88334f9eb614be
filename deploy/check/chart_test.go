package check

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

const chart = "../helm/outbox-relay"

// valueSets are the files of values that the chart is rendered with.
func valueSets(t *testing.T) []string {
	t.Helper()
	sets, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(sets) == 0 {
		t.Fatalf("no values: %v", err)
	}
	return sets
}

func readValues(t *testing.T, path string) common.Values {
	t.Helper()
	values, err := common.ReadValuesFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// render does what `helm template shop` does, without sorting.
func render(values common.Values) (map[string]string, error) {
	c, err := loader.LoadDir(chart)
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "shop", Namespace: "orders", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	for name, text := range files {
		if strings.TrimSpace(text) == "" || strings.HasSuffix(name, ".tpl") {
			delete(files, name)
		}
	}
	return files, err
}

func mustRender(t *testing.T, set string) map[string]string {
	t.Helper()
	files, err := render(readValues(t, set))
	if err != nil {
		t.Fatalf("%s: %v", set, err)
	}
	return files
}

func TestTheChartIsWithoutFault(t *testing.T) {
	t.Parallel()
	for _, set := range valueSets(t) {
		for _, m := range lint.RunAll(chart, readValues(t, set), "orders").Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", set, m)
			}
		}
	}
}

var update = flag.Bool("update", false, "write what is rendered as what is wanted")

func TestTheChartRendersWhatItDid(t *testing.T) {
	t.Parallel()
	for _, set := range valueSets(t) {
		files := mustRender(t, set)
		var names []string
		for name := range files {
			names = append(names, name)
		}
		slices.Sort(names)
		var got bytes.Buffer
		for _, name := range names {
			got.WriteString("# " + name + "\n" + strings.TrimSpace(files[name]) + "\n")
		}
		golden := strings.TrimSuffix(set, ".values.yaml") + ".golden"
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: %s; see the difference by: go test -C deploy/check . -update && git diff", set, firstDifference(got.String(), string(want)))
		}
	}
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "got " + strings.TrimSpace(a[i]) + ", want " + strings.TrimSpace(b[i])
		}
	}
	return "one of the two is longer"
}

// set puts a value at a path of keys into values that are good otherwise.
func set(t *testing.T, value any, path ...string) common.Values {
	t.Helper()
	values := readValues(t, "testdata/small.values.yaml")
	at := map[string]any(values)
	for _, key := range path[:len(path)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	at[path[len(path)-1]] = value
	return values
}

func TestTheChartRefusesValuesThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values common.Values
		want   string
	}{
		"an unknown value":                {set(t, 3, "replicas"), "replicas"},
		"an unknown value of the image":   {set(t, "v1", "image", "version"), "version"},
		"a password among settings":       {set(t, "hunter2", "config", "sasl-password"), "sasl-password"},
		"a password of one source":        {set(t, []any{map[string]any{"name": "a", "database-password": "x"}}, "config", "sources"), "database-password"},
		"a password in a URL":             {set(t, "postgres://relay:hunter2@db/shop", "config", "database-url"), "database-url"},
		"a password in words":             {set(t, "host=db password=hunter2", "config", "database-url"), "database-url"},
		"a password in a URL's query":     {set(t, "postgres://db/shop?user=a&password=hunter2", "config", "database-url"), "database-url"},
		"no image":                        {set(t, "", "image", "repository"), "image.repository is required"},
		"a digest that is none":           {set(t, "sha256:12", "image", "digest"), "digest"},
		"an address beside the port":      {set(t, ":8080", "config", "listen"), "config"},
		"a drain longer than the grace":   {set(t, "1m", "config", "drain-timeout"), "terminationGracePeriodSeconds is 30: want more than the drain-timeout 1m"},
		"a drain as long as the grace":    {set(t, "29s1000ms", "config", "drain-timeout"), "terminationGracePeriodSeconds is 30"},
		"a drain of one source, too long": {set(t, []any{map[string]any{"name": "a", "drain-timeout": "31s"}}, "config", "sources"), "drain-timeout 31s"},
	} {
		if _, err := render(c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
	if _, err := render(set(t, "29s", "config", "drain-timeout")); err != nil {
		t.Errorf("a drain shorter than the grace: %v", err)
	}
	short := set(t, 8, "terminationGracePeriodSeconds")
	short["config"].(map[string]any)["drain-timeout"] = "5s"
	short["config"].(map[string]any)["sources"] = []any{map[string]any{"name": "a"}, map[string]any{"name": "b", "drain-timeout": "7s"}}
	if _, err := render(short); err != nil {
		t.Errorf("a source that drains as long as all of them: %v", err)
	}
	if _, err := render(set(t, "host=db user=relay passfile=/x", "config", "database-url")); err != nil {
		t.Errorf("a URL without a password: %v", err)
	}
}
