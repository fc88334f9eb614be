package outbox

import (
	"bytes"
	"encoding/json"
)

// payloadText returns the JSON text that is stored. A fault means that there is none, or that PostgreSQL would refuse it.
func payloadText(e *Event) ([]byte, *fault) {
	switch p := e.Payload.(type) {
	case Envelope:
		return p.text(e)
	case *Envelope:
		if p != nil {
			return p.text(e)
		}
	}
	return jsonText(e.Payload)
}

// jsonText returns a value as JSON text that jsonb accepts.
func jsonText(value any) ([]byte, *fault) {
	switch v := value.(type) {
	case nil:
		return nil, &fault{"is nil", `set it; if JSON null is meant, give json.RawMessage("null")`}
	case []byte:
		_, f := checkJSON(v)
		return v, f
	case json.RawMessage:
		_, f := checkJSON(v)
		return v, f
	}
	return marshalled(value)
}

func marshalled(value any) ([]byte, *fault) {
	text, err := marshal(value)
	if err != nil {
		return nil, faultf("give a value that encoding/json can marshal, or the JSON text", "cannot be marshalled: %v", err)
	}
	if string(text) == "null" {
		return nil, faultf(`set it; if JSON null is meant, give json.RawMessage("null")`, "is a %T that marshals to null", value)
	}
	replaced, f := checkJSON(text)
	if f == nil && replaced >= 0 {
		// encoding/json writes this escape for bytes that are not UTF-8, and only for those; it would go unnoticed.
		f = faultf("convert it to UTF-8, or encode it, for example as base64",
			`a text in it is not valid UTF-8 (\ufffd at byte %d of the marshalled text)`, replaced)
	}
	return text, f
}

// marshal is json.Marshal without the escapes for HTML.
func marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
