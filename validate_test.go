package outbox_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox"
)

func TestEachFieldIsChecked(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 250)
	for name, c := range map[string]struct {
		change      func(*outbox.Event)
		field, says string
	}{
		"no aggregate type":    {func(e *outbox.Event) { e.AggregateType = "" }, "AggregateType", "is empty"},
		"no aggregate id":      {func(e *outbox.Event) { e.AggregateID = "" }, "AggregateID", "is empty"},
		"no type":              {func(e *outbox.Event) { e.Type = "" }, "Type", "is empty"},
		"no topic":             {func(e *outbox.Event) { e.Topic = "" }, "Topic", "is empty"},
		"no payload":           {func(e *outbox.Event) { e.Payload = nil }, "Payload", "is nil"},
		"U+0000 in the type":   {func(e *outbox.Event) { e.Type = "a\x00" }, "Type", "has the character U+0000 at byte 1"},
		"U+0000 in the id":     {func(e *outbox.Event) { e.AggregateID = "\x00" }, "AggregateID", "has the character U+0000 at byte 0"},
		"U+0000 in the key":    {func(e *outbox.Event) { e.PartitionKey = "\x00" }, "PartitionKey", "has the character U+0000 at byte 0"},
		"UTF-8 of the type":    {func(e *outbox.Event) { e.AggregateType = "é\xff" }, "AggregateType", "is not valid UTF-8 at byte 2"},
		"surrogate as bytes":   {func(e *outbox.Event) { e.PartitionKey = "\xed\xa0\x80" }, "PartitionKey", "is not valid UTF-8 at byte 0"},
		"long topic":           {func(e *outbox.Event) { e.Topic = long }, "Topic", "has 250 characters"},
		"topic with a blank":   {func(e *outbox.Event) { e.Topic = "a b" }, "Topic", `has the character " " at byte 1`},
		"header without name":  {func(e *outbox.Event) { e.Headers = map[string]string{"": "1"} }, `Headers[""]`, "the name is empty"},
		"header of the relay":  {func(e *outbox.Event) { e.Headers = map[string]string{"x-event-id": "1"} }, `Headers["x-event-id"]`, "the name is taken"},
		"the same, in capital": {func(e *outbox.Event) { e.Headers = map[string]string{"X-Event-Type": "1"} }, `Headers["X-Event-Type"]`, "the name is taken"},
		"U+0000 in a name":     {func(e *outbox.Event) { e.Headers = map[string]string{"a\x00": "1"} }, `Headers["a\x00"]`, "the name has the character U+0000"},
		"U+0000 in a value":    {func(e *outbox.Event) { e.Headers = map[string]string{"a": "1\x00"} }, `Headers["a"]`, "has the character U+0000 at byte 1"},
		"UTF-8 of a value":     {func(e *outbox.Event) { e.Headers = map[string]string{"a": "\xff"} }, `Headers["a"]`, "is not valid UTF-8"},
	} {
		e := confirmed()
		c.change(&e)
		var invalid *outbox.InvalidError
		if _, _, err := outbox.Statement(confirmed(), e); !errors.As(err, &invalid) {
			t.Errorf("%s: error %v, want an InvalidError", name, err)
			continue
		}
		p := invalid.Problems[0]
		if len(invalid.Problems) != 1 || p.Event != 1 || p.Field != c.field || !strings.HasPrefix(p.Text, c.says) || p.Remedy == "" {
			t.Errorf("%s: problems %v, want %s: %s", name, invalid.Problems, c.field, c.says)
		}
	}
}

func TestAllProblemsOfACallAreInOneError(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0198a0f0-1111-7222-8333-444444444444")
	first, second := confirmed(), outbox.Event{ID: id, Payload: []byte("{")}
	first.ID = id
	_, _, err := outbox.Statement(first, second)
	var invalid *outbox.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, outbox.ErrInvalid) {
		t.Fatalf("error %v, want an InvalidError", err)
	}
	var fields []string
	for _, p := range invalid.Problems {
		fields = append(fields, p.Field)
	}
	if want := []string{"Topic", "ID", "AggregateType", "AggregateID", "Type", "Payload"}; !slices.Equal(fields, want) {
		t.Errorf("fields %v, want %v", fields, want)
	}
	want := `check events: 6 problems, nothing was sent
event 1: Topic: is empty: set Event.Topic, or configure a writer with Topics to derive it
event 1: ID: is also the id of event 0: give each event an id of its own, or leave it zero
event 1: AggregateType: is empty: set it`
	if got := err.Error(); !strings.HasPrefix(got, want) {
		t.Errorf("error:\n%s\nwant\n%s", got, want)
	}
}

func TestALongListOfProblemsIsCutInTheText(t *testing.T) {
	t.Parallel()
	_, _, err := outbox.Statement(make([]outbox.Event, 100)...)
	lines := strings.Split(err.Error(), "\n")
	if last := lines[len(lines)-1]; len(lines) != 22 || last != "and 480 more" {
		t.Errorf("%d lines, the last is %q", len(lines), last)
	}
}

func TestProblemsDoNotTellWhatThePayloadHolds(t *testing.T) {
	t.Parallel()
	for _, payload := range []any{[]byte(`{"secret":"s3cr3t\u0000"}`), []byte(`"s3cr3t`), map[string]string{"a": "s3cr3t\xff"}} {
		if _, err := payloadText(withPayload(payload)); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("error %v", err)
		}
	}
}

func TestAWriterNamesAllThatIsWrongWithItsConfiguration(t *testing.T) {
	t.Parallel()
	_, err := outbox.NewWriter(outbox.Config{
		Schema: "a\x00", Table: strings.Repeat("é", 32), Headers: 7, Topics: outbox.Topics{Service: "OrderService"},
	})
	for _, says := range []string{
		"configure outbox writer: Schema: name contains U+0000", "Table: name of 64 bytes", "Headers: unknown mode 7",
		`Topics.Service: "OrderService" is not in kebab-case`,
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one with %q", err, says)
		}
	}
	if _, err := outbox.NewWriter(outbox.Config{Topics: outbox.Topics{PerAggregate: true}}); err == nil {
		t.Error("PerAggregate without a service is accepted")
	}
}

func TestAQualifiedNameIsRefusedAsATable(t *testing.T) {
	t.Parallel()
	_, err := outbox.NewWriter(outbox.Config{Table: "public.outbox_event"})
	if says := `write Schema: "public", Table: "outbox_event"`; err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("error %v, want one with %q", err, says)
	}
	if _, err := outbox.NewWriter(outbox.Config{Schema: "public", Table: "outbox.event"}); err != nil {
		t.Errorf("a name with a dot, in a schema that is given: %v", err)
	}
}

func TestIDsFromTheConfigurationAreUsedAndChecked(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0198a0f0-1111-7222-8333-444444444444")
	w := newWriter(t, outbox.Config{NewID: func() uuid.UUID { return id }})
	p, err := w.Prepare(confirmed())
	if err != nil || !slices.Equal(p.IDs(), []uuid.UUID{id}) {
		t.Errorf("ids %v, %v", p.IDs(), err)
	}
	if _, err := w.Prepare(confirmed(), confirmed()); !errors.Is(err, outbox.ErrInvalid) {
		t.Errorf("the same id twice: error %v", err)
	}
	w = newWriter(t, outbox.Config{NewID: func() uuid.UUID { return uuid.Nil }})
	if _, err := w.Prepare(confirmed()); !errors.Is(err, outbox.ErrInvalid) {
		t.Errorf("zero id: error %v", err)
	}
}
