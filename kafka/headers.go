package kafka

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Names of the headers that every record carries, before the row's own.
const (
	HeaderEventID   = "x-event-id"
	HeaderEventType = "x-event-type"
)

// appendRowHeaders appends the headers of a row's column headers, the text of a JSON object, in its order. A string becomes its UTF-8
// bytes, null a null header, and everything else its JSON text without blanks. The names of the two standard headers are left out:
// they are the row's columns to tell.
func appendRowHeaders(dst []kgo.RecordHeader, text []byte) ([]kgo.RecordHeader, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return dst, errors.New("column headers is not a JSON object: make it one, such as {\"name\": \"value\"}")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return dst, badHeaders(err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return dst, badHeaders(err)
		}
		if name == HeaderEventID || name == HeaderEventType {
			continue
		}
		value, err := headerValue(raw)
		if err != nil {
			return dst, badHeaders(err)
		}
		dst = append(dst, kgo.RecordHeader{Key: name.(string), Value: value})
	}
	if _, err := d.Token(); err != nil {
		return dst, badHeaders(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return dst, badHeaders(errors.New("something follows the object"))
	}
	return dst, nil
}

// badHeaders keeps the decoder's own words out: they may quote what a header holds.
func badHeaders(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("column headers is not valid JSON near byte %d: correct it", syntax.Offset)
	}
	return errors.New("column headers is not one valid JSON object: correct it")
}

func headerValue(raw json.RawMessage) ([]byte, error) {
	switch raw[0] {
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		return []byte(s), nil
	case 'n':
		return nil, nil
	}
	return appendCompact(make([]byte, 0, len(raw)), raw), nil
}
