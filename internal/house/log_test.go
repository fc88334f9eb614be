package house

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logged are the functions that write a line of the log, with the number of arguments in front of its attributes.
var logged = map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "Log": 3, "With": 0, "WithKey": 2}

// attributes are the names of attributes that a file gives to its lines, as far as they are literal, with the place of each.
func attributes(s source) map[string]string {
	found := map[string]string{}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		args, ours := attributesOf(call)
		for i := 0; ours && i < len(args); i += 2 {
			if lit, ok := args[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				name, _ := strconv.Unquote(lit.Value)
				found[name] = s.at(call, "attribute %q", name)
			}
		}
		return true
	})
	return found
}

func attributesOf(call *ast.CallExpr) ([]ast.Expr, bool) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	before, known := logged[sel.Sel.Name]
	return call.Args[min(before, len(call.Args)):], known && onLogger(sel)
}

// onLogger tells a logger by its name from other things that have such methods.
func onLogger(sel *ast.SelectorExpr) bool {
	if sel.Sel.Name == "WithKey" {
		return true
	}
	switch x := sel.X.(type) {
	case *ast.Ident:
		return x.Name == "log"
	case *ast.SelectorExpr:
		return slices.Contains([]string{"log", "logger", "Logger"}, x.Sel.Name)
	}
	return false
}

// tableOfAttributes are the names in the first column of the table below the heading.
func tableOfAttributes(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "docs/operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n### Attributes of the log\n")
	if !found {
		t.Fatal("docs/operating.md has no section Attributes of the log")
	}
	section, _, _ = strings.Cut(section, "\n#")
	names := map[string]bool{}
	for line := range strings.Lines(section) {
		if first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |"); strings.HasPrefix(line, "| ") {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
				names[m[1]] = true
			}
		}
	}
	return names
}

func TestTheLogsAttributesHaveOneNameEach(t *testing.T) {
	t.Parallel()
	documented, used := tableOfAttributes(t), map[string]string{}
	for _, s := range sources(t) {
		if folder, _, _ := strings.Cut(s.path, "/"); !s.isTest() && !strings.HasPrefix(s.path, "internal/dev") && slices.Contains([]string{"relay", "competing", "kafka", "inbox", "postgres", "operate", "internal"}, folder) {
			maps.Copy(used, attributes(s))
		}
	}
	if len(used) < 30 {
		t.Fatalf("only %d attributes found: look at the test", len(used))
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(name) {
			t.Errorf("%s: words of small letters, joined by _", used[name])
		}
		if !documented[name] {
			t.Errorf("%s is not in the table of docs/operating.md: take a name that is there, or add it", used[name])
		}
	}
}

func TestTheAttributesOfALineAreFound(t *testing.T) {
	t.Parallel()
	s, err := parse(file{"a/a.go", []byte("package a\nfunc f() { r.cfg.Logger.Warn(`x`, `topic`, 1, `error`, err); log.Info(`y`, rest...); t.Error(`z`, `nothing`) }")})
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(attributes(s))); !slices.Equal(got, []string{"error", "topic"}) {
		t.Errorf("found %q", got)
	}
}
