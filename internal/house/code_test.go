package house

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// codeRule looks at one Go file.
type codeRule struct {
	name string
	find func(source) []string
	bad  file // an example in which the rule must find one thing
	good file // one that it must leave alone
}

// Some examples are written in pieces: a plain search for what they show shall not find them.
func codeRules() []codeRule {
	return []codeRule{{
		name: "tests do not sleep; poll with a deadline, use a channel, synctest or a clock of your own",
		find: callsInTests("time", "Sleep"),
		bad:  file{"a/a_test.go", []byte("package a\nfunc f() { time." + "Sleep(1) }")},
		good: file{"a/a.go", []byte("package a\nfunc f() { time." + "Sleep(1) }")},
	}, {
		name: "tests are not skipped; a part that cannot be had is a failure, a suite that needs one has a build tag",
		find: skips,
		bad:  file{"a/a_test.go", []byte("package a\nfunc f(t *testing.T) { t." + "Skip(`no`) }")},
		good: file{"a/a_test.go", []byte("package a\nfunc f(s scanner) { s.Skip() }")},
	}, {
		name: "only programs end the process; return an error",
		find: ends,
		bad:  file{"a/a.go", []byte("package a\nfunc f() { os.Exit(1) }")},
		good: file{"cmd/a/main.go", []byte("package main\nfunc main() { os.Exit(1) }")},
	}, {
		name: "SQL stands in the root's and the inbox's statements, postgres, migrate and outboxtest only",
		find: sqlElsewhere,
		bad:  file{"web/a.go", []byte("package web\nconst q = `SELECT a\nFROM b`")},
		good: file{"web/a.go", []byte("package web\nconst q = `select a topic from the list`")},
	}, {
		name: "exported names are documented",
		find: undocumented,
		bad:  file{"a/a.go", []byte("package a\ntype T struct{}\n// String is known.\nfunc (T) String() string { return `` }")},
		good: file{"a/a.go", []byte("package a\n// Kinds.\nconst (\n\tA = iota\n\tB\n)\ntype t struct{}\nfunc (t) M() {}\n// T is one.\ntype T struct{ A int }\nfunc (T) Error() string { return `` }")},
	}}
}

func TestEveryFileKeepsTheCodeRules(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		for _, rule := range codeRules() {
			for _, finding := range rule.find(s) {
				t.Errorf("%s: %s", finding, rule.name)
			}
		}
	}
}

func TestTheCodeRulesFindWhatTheyForbid(t *testing.T) {
	t.Parallel()
	for _, r := range codeRules() {
		for want, f := range []file{r.good, r.bad} {
			s, err := parse(f)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.find(s); len(got) != want {
				t.Errorf("rule %q on %s: got %q, want %d findings", r.name, f.text, got, want)
			}
		}
	}
}

// calls returns the places where the file calls one of the functions of what is called x there.
func calls(s source, x string, functions ...string) []ast.Node {
	var found []ast.Node
	ast.Inspect(s.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(functions, sel.Sel.Name) {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == x {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

func callsInTests(x string, functions ...string) func(source) []string {
	return func(s source) (found []string) {
		if !s.isTest() {
			return nil
		}
		for _, n := range calls(s, x, functions...) {
			found = append(found, s.at(n, "calls %s.%s", x, strings.Join(functions, "/")))
		}
		return found
	}
}

func skips(s source) (found []string) {
	for _, x := range []string{"t", "tb", "b", "f"} {
		found = append(found, callsInTests(x, "Skip", "Skipf", "SkipNow")(s)...)
	}
	return found
}

func ends(s source) (found []string) {
	// pgtest and await have a Main for the TestMain of other packages; examples are programs.
	if s.isTest() || s.in("cmd", "bench", "examples", "internal/await", "internal/pgtest") {
		return nil
	}
	for _, n := range append(calls(s, "os", "Exit"), calls(s, "log", "Fatal", "Fatalf", "Fatalln")...) {
		found = append(found, s.at(n, "ends the process"))
	}
	return found
}

// statement is how SQL looks in this repository: keywords in capitals.
var statement = regexp.MustCompile(`(?s)\bSELECT\b.*\bFROM\b|\bSELECT [a-z_]+\(|\bINSERT\s+INTO\b|\bUPDATE\b.*\bSET\b|\bDELETE\s+FROM\b|\b(CREATE|ALTER|DROP)\s+(TABLE|INDEX|UNIQUE|SCHEMA|SEQUENCE|DATABASE|ROLE|FUNCTION|TRIGGER)\b`)

func sqlElsewhere(s source) (found []string) {
	if s.isTest() || s.in(".", "inbox", "postgres", "migrate", "internal/pg", "internal/checkup", "internal/devpg", "internal/pgtest", "internal/kafkatest", "internal/demo", "internal/benchmark", "outboxtest", "examples", "bench") {
		return nil
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && statement.MatchString(lit.Value) {
			found = append(found, s.at(n, "a statement"))
		}
		return true
	})
	return found
}
