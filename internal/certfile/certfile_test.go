package certfile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/devcert"
)

func TestABlockThatIsCutOrDamagedIsNamed(t *testing.T) {
	t.Parallel()
	authority, err := devcert.New("authority of a test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(devcert.Request{Name: "client"})
	if err != nil {
		t.Fatal(err)
	}
	whole := string(authority.PEM)
	lines := strings.SplitAfter(whole, "\n")
	last := len(lines) - 2 // behind the last line's end is nothing
	without := func(from, to int) string { return strings.Join(lines[:from], "") + strings.Join(lines[to:], "") }
	for what, c := range map[string]struct{ content, want string }{
		"one":                   {whole, ""},
		"two":                   {whole + whole, ""},
		"of Windows":            {strings.ReplaceAll(whole+whole, "\n", "\r\n"), ""},
		"with comments":         {"# Issuer: CN=a\n===\n" + whole + "\nsecond, -----BEGIN it is not\n" + whole + "\nthe end\n", ""},
		"a key beside it":       {string(pair.Key) + whole, ""},
		"an end without line":   {strings.TrimSuffix(whole, "\n"), ""},
		"cut in the second":     {whole + without(last-1, last+1), fmt.Sprintf("block 2, at line %d, is cut or damaged (its end is missing): put the whole file there again, or take that block out", last+2)},
		"cut in its first":      {whole + "-----BEGIN CERT", "block 2"},
		"cut in its last":       {whole + strings.TrimSuffix(whole, "CERTIFICATE-----\n"), "block 2"},
		"run together":          {without(last, last+1) + whole, "block 1, at line 1, is cut or damaged (its end is missing)"},
		"without a beginning":   {without(0, 3) + whole, fmt.Sprintf("block 1, at line %d, is cut or damaged (its beginning is missing)", last-2)},
		"a line is missing":     {whole + without(3, 4), fmt.Sprintf("block 2, at line %d, is cut or damaged (x509: malformed", last+2)},
		"a letter is no base64": {whole + strings.Replace(whole, lines[2], "!"+lines[2][1:], 1), "no base64"},
		"indented":              {whole + "  " + strings.ReplaceAll(whole, "\n", "\n  "), "or indented"},
		"a key that is cut":     {string(pair.Key[:len(pair.Key)/2]), "block 1"},
	} {
		err := Check([]byte(c.content))
		switch {
		case c.want == "" && err != nil, c.want != "" && err == nil, err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: got %v, want %q", what, err, c.want)
		case err != nil && bytes.Contains(pair.Key, []byte(err.Error())):
			t.Errorf("%s: the key is in it", what)
		}
	}
}
