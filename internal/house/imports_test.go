package house

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const franz, pgx, otel = "github.com/twmb/franz-go", "github.com/jackc/pgx", "go.opentelemetry.io"

// layers says which packages of this module each public package may import. Siblings do not import each other: what they share lies
// below them, and what joins them is internal/cli.
func layers() map[string][]string {
	middle := []string{"", "operate", "relay", "competing", "inbox", "internal/lanesql", "internal/advice", "internal/schema", "internal/patience", "internal/pg", "internal/certfile", "internal/connstring"}
	// The operators' store prunes; nothing else there may need it.
	postgres := append(slices.Clone(middle), "postgres/retention")
	return map[string][]string{
		"":           {"internal/topicname"},
		"outboxsql":  {""},
		"operate":    {"", "internal/advice"},
		"relay":      {"", "internal/engine", "internal/topicname"},
		"competing":  {"", "relay", "internal/engine"},
		"inbox":      {""},
		"kafka":      middle,
		"postgres":   postgres,
		"migrate":    middle,
		"web":        middle,
		"tracing":    {"relay", "inbox"},
		"outboxtest": {"", "outboxsql", "relay", "inbox", "postgres", "kafka"},

		"postgres/retention": middle,

		"relay/relaytest": {"", "relay"},
		"inbox/inboxprom": {"inbox"},
	}
}

// unreachable says what a package must not even reach through others.
func unreachable() map[string][]string {
	return map[string][]string{
		"":      {franz, otel, "net/http", "html/template", "flag"},
		"relay": {franz, pgx, otel, "net/http", "html/template", "flag", "database/sql", "github.com/prometheus"},
		"inbox": {franz, otel, "net/http", "github.com/prometheus"},
		"kafka": {otel},
		// Which spans are kept, and where they go, is up to the program.
		"tracing": {franz, otel + "/otel/sdk", otel + "/otel/exporters"},

		"competing": {franz, pgx, otel, "net/http", "html/template", "flag", "database/sql"},
	}
}

// pkg is a package as `go list` describes it.
type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// name is the package's folder; "" is the root.
func (p pkg) name() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func (p pkg) internal() bool {
	return strings.HasPrefix(p.name(), "internal/") || strings.HasPrefix(p.name(), "cmd/") || strings.HasPrefix(p.name(), "test/") || strings.HasPrefix(p.name(), "examples/") || p.name() == "interop"
}

// within tells whether an import is the package, or lies in its module. Below a standard package lie others: everybody who has UUIDs
// reaches database/sql/driver.
func within(path, parent string) bool {
	if !strings.Contains(parent, ".") {
		return path == parent
	}
	return path == parent || strings.HasPrefix(path, parent+"/")
}

// wrongDirections returns what the package imports against the layers.
func wrongDirections(p pkg) (found []string) {
	if p.internal() {
		return nil
	}
	allowed, known := layers()[p.name()]
	if !known {
		return []string{p.ImportPath + ": a public package that the layers do not know; decide where it stands, in internal/house and in docs"}
	}
	for _, i := range p.Imports {
		if within(i, module) && !slices.Contains(allowed, (pkg{ImportPath: i}).name()) {
			found = append(found, p.ImportPath+": imports "+i+", which is beside or above it; wire them in internal/cli")
		}
	}
	return found
}

// wrongReach returns what the package reaches and must not.
func wrongReach(p pkg) (found []string) {
	for _, forbidden := range unreachable()[p.name()] {
		for _, d := range p.Deps {
			if within(d, forbidden) {
				found = append(found, p.ImportPath+": reaches "+d+", which its users must not have to link")
			}
		}
	}
	return found
}

// franzOutsideKafka returns the imports of the Kafka client outside package kafka and what runs brokers or reads topics for tests and demonstrations.
func franzOutsideKafka(p pkg) (found []string) {
	if slices.Contains([]string{"kafka", "internal/devkafka", "internal/kafkatest", "internal/demo", "test/kafka", "interop", "outboxtest", "examples/shop"}, p.name()) {
		return nil
	}
	for _, i := range p.Imports {
		if within(i, franz) {
			found = append(found, p.ImportPath+": imports "+i+"; only package kafka knows the client")
		}
	}
	return found
}

// testsOnly returns the imports of the package that is for tests. What test files import is not among a package's imports.
func testsOnly(p pkg) (found []string) {
	for _, i := range p.Imports {
		if within(i, module+"/outboxtest") {
			found = append(found, p.ImportPath+": imports "+i+", which is for tests only")
		}
	}
	return found
}

// exampleOfNoUser returns what a user could not write in the packages of the examples; the programs that start them may use more.
func exampleOfNoUser(p pkg) (found []string) {
	if !strings.HasPrefix(p.name(), "examples/") || strings.Count(p.name(), "/") < 2 {
		return nil
	}
	for _, i := range p.Imports {
		if within(i, module+"/internal") || within(i, franz) {
			found = append(found, p.ImportPath+": imports "+i+", which a user's service cannot, or need not")
		}
	}
	return found
}

func importRules() []func(pkg) []string {
	return []func(pkg) []string{wrongDirections, wrongReach, franzOutsideKafka, testsOnly, exampleOfNoUser}
}

func TestPackagesImportOnlyWhatLiesBelowThem(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, rule := range importRules() {
			for _, finding := range rule(p) {
				t.Error(finding)
			}
		}
	}
}

func TestTheImportRulesFindWhatTheyForbid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		p    pkg
		want int
	}{
		{"siblings", pkg{ImportPath: module + "/kafka", Imports: []string{module + "/postgres", module + "/relay"}}, 1},
		{"upwards", pkg{ImportPath: module, Imports: []string{module + "/relay"}}, 1},
		{"unknown package", pkg{ImportPath: module + "/extra"}, 1},
		{"test parts in a public package", pkg{ImportPath: module + "/postgres", Imports: []string{module + "/internal/pgtest"}}, 1},
		{"reach", pkg{ImportPath: module + "/relay", Deps: []string{franz + "/pkg/kgo", pgx + "/v5", "database/sql", "database/sql/driver"}}, 3},
		{"client outside kafka", pkg{ImportPath: module + "/internal/cli", Imports: []string{franz + "/pkg/kgo"}}, 1},
		{"wiring", pkg{ImportPath: module + "/internal/cli", Imports: []string{module + "/kafka", module + "/postgres"}}, 0},
		{"tests' package in a program", pkg{ImportPath: module + "/internal/cli", Imports: []string{module + "/outboxtest"}}, 1},
		{"an example's service with an internal package", pkg{ImportPath: module + "/examples/shop/order", Imports: []string{module + "/internal/devpg", module + "/kafka"}}, 1},
		{"an example's starter with one", pkg{ImportPath: module + "/examples/shop", Imports: []string{module + "/internal/devpg"}}, 0},
		{"allowed", pkg{ImportPath: module + "/kafka", Imports: []string{module + "/relay", module, franz + "/pkg/kgo"}}, 0},
	} {
		var got []string
		for _, rule := range importRules() {
			got = append(got, rule(c.p)...)
		}
		if len(got) != c.want {
			t.Errorf("%s: got %q, want %d findings", c.name, got, c.want)
		}
	}
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-tags=integration", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir = top
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v: %s", err, stderr.String())
	}
	var found []pkg
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatalf("read the list of packages: %v", err)
		}
		found = append(found, p)
	}
}
