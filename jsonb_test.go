package outbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/internal/pgtest"
)

// documents are texts at the edges of what jsonb takes, and seeds for those made at random.
func documents() []string {
	zeros := func(n int) string { return strings.Repeat("0", n) }
	return []string{
		// syntax
		`{}`, `[]`, `null`, `true`, `""`, `0`, ` 1 `, "\t\r\n[1]\n", `{"a":{"b":[1,{"c":null}]}}`, `{"a":1,"a":2}`, `{"":""}`,
		``, ` `, `{`, `}`, `[1,]`, `{"a"}`, `{a:1}`, `{'a':1}`, `1 2`, `nul`, `True`, `NaN`, `Infinity`, `undefined`, "\ufeff1", "\f1", "\v1", "\u00a01",
		`[1`, `"a`, `/* */1`, `{"a":1}}`,
		// strings
		`"\""`, `"\\"`, `"\/"`, `"\b\f\n\r\t"`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\U0041"`, "\"\t\"", "\"\n\"", "\"\x1f\"", "\"\x7f\"", "\"\u0085\u2028\"",
		`"ü😀"`, `"\u00fc"`, `"\\u0000"`, `"\\\u0000"`, `"\u0000"`, `"a\u0000b"`, `{"a\u0000":1}`, `["\u0001"]`, `"\ufffd"`, `"\uffff"`, "\"\uffff\"",
		// surrogates
		`"\ud83d\ude00"`, `"\uD83D\uDE00"`, `"\ud800"`, `"\udc00"`, `"\ud800\ud800"`, `"\ud800x"`, `"\ud800\n"`, `"\ud800\u0041"`, `"\udc00\ud800"`,
		`"\ud83d\ude00\ude00"`, `"\ud83d\\ude00"`, `{"\ud800":1}`, `"\ud800\udbff"`, `"\udbff\udfff"`, `"\ud7ff\ue000"`,
		// numbers
		`-0`, `-`, `+1`, `01`, `-01`, `.5`, `5.`, `1.5`, `1e5`, `1E+5`, `1e-5`, `1e`, `1e+`, `0x10`, `1_000`, `9007199254740993`, `18446744073709551615`,
		`0.1234567890123456789`, `1.10`, `1e131071`, `1e131072`, `-1e131071`, `-1e131072`, `9999e131068`, `9999e131069`, `0.0001e131075`, `0.0001e131076`,
		`1e-16383`, `1e-16384`, `1.5e-16382`, `1.5e-16383`, `1.0000e16383`, `0e200000`, `0e-16383`, `0e-16384`, `0.0e200000`, `1e200000`,
		// The largest exponent of a zero is left out: versions of PostgreSQL differ about it, and what one of them refuses is refused.
		`1e1073741822`, `0e99999999999`, `0e99999999999999999999999`, `1e-99999999999999999999999`, `1e00000000000000000000005`,
		`1.` + zeros(16383), `1.` + zeros(16384), `1` + zeros(131071), `1` + zeros(131072), `0.` + zeros(20000) + `1e20001`, `0.` + zeros(16383) + `e1`,
		// nesting
		nested(outbox.MaxPayloadDepth, "[", "]"), nested(outbox.MaxPayloadDepth, `{"a":`, `}`),
	}
}

func nested(depth int, opening, closing string) string {
	return strings.Repeat(opening, depth) + "1" + strings.Repeat(closing, depth)
}

func accepted(text string) bool {
	_, err := payloadText(withPayload([]byte(text)))
	return err == nil
}

// jsonb returns which of the texts PostgreSQL takes.
func jsonb(t *testing.T, pool *pgxpool.Pool, texts []string) []bool {
	t.Helper()
	run(t, pool, `CREATE FUNCTION takes(document text) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN PERFORM document::jsonb; RETURN 'true'; EXCEPTION WHEN OTHERS THEN RETURN 'false'; END $$`)
	var takes []bool
	for _, s := range query(t, pool, `SELECT takes(d) FROM unnest($1::text[]) WITH ORDINALITY u(d, n) ORDER BY n`, texts) {
		takes = append(takes, s == "true")
	}
	return takes
}

func TestExactlyWhatJSONBTakesIsAccepted(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Empty).Pool(t)
	texts := slices.Concat(documents(), mutations(documents(), 8_000))
	count := 0
	for i, takes := range jsonb(t, pool, texts) {
		if accepted(texts[i]) != takes {
			t.Errorf("%.80q: accepted %v, PostgreSQL takes it: %v", texts[i], !takes, takes)
		}
		if takes {
			count++
		}
	}
	if count < 1000 || count > len(texts)-1000 {
		t.Errorf("PostgreSQL takes %d of %d: the documents prove little", count, len(texts))
	}
}

// mutations makes documents by small changes of others: always the same ones, so that a failure comes again.
func mutations(seeds []string, n int) []string {
	random := rand.New(rand.NewPCG(1, 2))
	short := slices.DeleteFunc(slices.Clone(seeds), func(s string) bool { return len(s) > 100 })
	pieces := []string{`"`, `\`, `\u0000`, `\ud800`, `\udc00`, `\u00e9`, `{`, `}`, `[`, `]`, `:`, `,`, `e`, `-`, `+`, `.`, `0`, `9`, `16383`, `131072`, ` `, "\n", "\x01", "é", "x"}
	made := make([]string, 0, n)
	for len(made) < n {
		s := short[random.IntN(len(short))]
		if random.IntN(2) == 0 {
			s = fmt.Sprintf(`{"a":%s,"b":[%s]}`, s, short[random.IntN(len(short))])
		}
		if random.IntN(4) > 0 {
			at, end := random.IntN(len(s)+1), 0
			end = min(len(s), at+random.IntN(3))
			s = s[:at] + pieces[random.IntN(len(pieces))] + s[end:]
		}
		if utf8.ValidString(s) {
			made = append(made, s)
		}
	}
	return made
}

func TestBytesThatAreNoTextAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", "\"\xf4\x90\x80\x80\"", "{\"\xc3\":1}", "\"\x00\"", "1\x00"} {
		if accepted(text) {
			t.Errorf("%q is accepted", text)
		}
	}
}

// These would be taken by a server with a large stack; consumers commonly refuse them.
func TestDeepDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		nested(outbox.MaxPayloadDepth+1, "[", "]"), nested(outbox.MaxPayloadDepth+1, `{"a":`, `}`), nested(20_000, "[", "]"),
	} {
		if accepted(text) {
			t.Errorf("%.20s… is accepted", text)
		}
	}
	wide := "[" + strings.Repeat("[],", 10_000) + "[]]"
	if !accepted(wide) {
		t.Error("many arrays side by side are refused")
	}
}

func TestALongPayloadIsRefused(t *testing.T) {
	t.Parallel()
	longest := `"` + strings.Repeat("a", outbox.MaxPayloadBytes-2) + `"`
	w := newWriter(t, outbox.Config{})
	if _, err := w.Prepare(withPayload([]byte(longest))); err != nil {
		t.Errorf("the longest: %v", err)
	}
	if _, err := w.Prepare(withPayload([]byte(longest + " "))); !errors.Is(err, outbox.ErrInvalid) {
		t.Errorf("one byte more: %v", err)
	}
}

// PostgreSQL takes such a document of 90 kB, and can then neither print the row nor any result that holds it.
func TestNumbersThatWouldFillTheMemoryWhenPrintedAreRefused(t *testing.T) {
	t.Parallel()
	many := func(n int) string { return "[" + strings.Repeat("1e131071,", n) + "0]" }
	if fits := many(outbox.MaxPayloadBytes/131072 - 1); !accepted(fits) {
		t.Errorf("%d bytes are refused", len(fits))
	}
	_, err := payloadText(withPayload([]byte(many(10_000))))
	if !errors.Is(err, outbox.ErrInvalid) || !strings.Contains(err.Error(), "without exponents") {
		t.Errorf("error %v, want ErrInvalid", err)
	}
}

func TestPayloadsAreMarshalledWithoutLoss(t *testing.T) {
	t.Parallel()
	for want, payload := range map[string]any{
		`{"h":"<b>&"}`:           map[string]string{"h": "<b>&"},
		`"{}"`:                   "{}",
		`[1,2]`:                  []int{1, 2},
		`{"n": 1.10}`:            json.RawMessage(`{"n": 1.10}`),
		` [1 ]`:                  []byte(` [1 ]`),
		`null`:                   json.RawMessage(`null`),
		`{"a":1e400}`:            map[string]any{"a": json.Number("1e400")},
		`{"r":9007199254740993}`: map[string]any{"r": json.RawMessage(`9007199254740993`)},
		`"\ufffd"`:               json.RawMessage(`"\ufffd"`),
		`["` + "\ufffd" + `"]`:   []string{"\ufffd"},
		`["\\ufffd"]`:            []string{`\ufffd`},
	} {
		if got := payloadOf(t, withPayload(payload)); got != want {
			t.Errorf("%T: %s, want %s", payload, got, want)
		}
	}
}

func TestPayloadsThatWouldLoseSomethingAreRefused(t *testing.T) {
	t.Parallel()
	var pointer *struct{}
	for name, payload := range map[string]any{
		"nil":                nil,
		"nil map":            map[string]int(nil),
		"nil slice":          []string(nil),
		"nil pointer":        pointer,
		"nil bytes":          []byte(nil),
		"nil message":        json.RawMessage(nil),
		"channel":            make(chan int),
		"text of no UTF-8":   map[string]string{"a": "b\xff"},
		"name of no UTF-8":   map[string]int{"b\xff": 1},
		"U+0000 in a struct": struct{ A string }{"\x00"},
	} {
		if text, err := payloadText(withPayload(payload)); !errors.Is(err, outbox.ErrInvalid) {
			t.Errorf("%s: %q, error %v, want ErrInvalid", name, text, err)
		}
	}
}

// What jsonb does to a payload is part of the contract with consumers: 2witstudios/PageSpace#1073, xataio/pgstream#686,
// debezium/debezium#3773.
func TestPayloadsComeBackAsJSONBKeepsThem(t *testing.T) {
	t.Parallel()
	tx := begin(t, setup(t))
	vectors := []struct{ given, kept string }{
		{`{"n":9007199254740993,"u":18446744073709551615,"d":0.1234567890123456789,"p":1.10}`,
			`{"d": 0.1234567890123456789, "n": 9007199254740993, "p": 1.10, "u": 18446744073709551615}`},
		{`{"bb":1,  "a":2,"a" :3}`, `{"a": 3, "bb": 1}`},
		{`{"list":[1,2.5,3],"x":null,"deep":{"y":[]}}`, `{"x": null, "deep": {"y": []}, "list": [1, 2.5, 3]}`},
		{`1e3`, `1000`}, {`-0`, `0`}, {`"\u00fc\/"`, `"ü/"`},
		{`null`, `null`}, {`{}`, `{}`}, {`[]`, `[]`}, {`""`, `""`},
	}
	for _, v := range vectors {
		write(t, tx, withPayload([]byte(v.given)))
	}
	for i, got := range query(t, tx, `SELECT payload::text FROM outbox_event ORDER BY id`) {
		if got != vectors[i].kept {
			t.Errorf("%s came back as %s, want %s", vectors[i].given, got, vectors[i].kept)
		}
	}
}

func TestDocumentsOfEveryWidthPassTheArrays(t *testing.T) {
	t.Parallel()
	tx := begin(t, setup(t))
	var events []outbox.Event
	var want []string
	for i := range 300 {
		text := strconv.Quote(strings.Repeat(string(rune('a'+i%26)), i*7))
		events, want = append(events, withPayload([]byte(text))), append(want, text)
	}
	write(t, tx, events...)
	if got := query(t, tx, `SELECT payload::text FROM outbox_event ORDER BY id`); !slices.Equal(got, want) {
		t.Error("payloads were changed or swapped")
	}
}
