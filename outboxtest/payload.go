package outboxtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"reflect"
	"slices"
)

// decode keeps every digit of a number.
func decode(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the first value")
	}
	return v, nil
}

func comparePayload(got json.RawMessage, want any) []string {
	v, err := decode(got)
	if err != nil {
		return []string{fmt.Sprintf("Payload is no JSON: %v", err)}
	}
	return compare("Payload", v, want)
}

// compare says where got is not what is wanted. path names the place.
func compare(path string, got, want any) (found []string) {
	switch want := want.(type) {
	case map[string]any:
		if got, is := got.(map[string]any); is {
			return compareObject(path, got, want)
		}
	case []any:
		if got, is := got.([]any); is {
			return compareArray(path, got, want)
		}
	case json.Number:
		if got, is := got.(json.Number); is && sameNumber(got, want) {
			return nil
		}
	default:
		if reflect.DeepEqual(got, want) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s is %s, want %s", path, text(got), text(want))}
}

func compareObject(path string, got, want map[string]any) (found []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		field := path + "." + name
		if value, has := got[name]; has {
			found = append(found, compare(field, value, want[name])...)
		} else {
			found = append(found, fmt.Sprintf("%s is missing, want %s", field, text(want[name])))
		}
	}
	return found
}

func compareArray(path string, got, want []any) (found []string) {
	if len(got) != len(want) {
		return []string{fmt.Sprintf("%s has %d elements, want %d: %s", path, len(got), len(want), text(got))}
	}
	for i := range want {
		found = append(found, compare(fmt.Sprintf("%s[%d]", path, i), got[i], want[i])...)
	}
	return found
}

func sameNumber(a, b json.Number) bool {
	x, okX := new(big.Rat).SetString(a.String())
	y, okY := new(big.Rat).SetString(b.String())
	return a == b || okX && okY && x.Cmp(y) == 0
}

func text(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return string(bytes.TrimSpace(b.Bytes()))
}
