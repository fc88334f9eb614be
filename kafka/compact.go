package kafka

import "bytes"

// appendCompact appends the JSON text src to dst without the blanks outside strings. Nothing is decoded: numbers keep all their digits
// and strings their escapes. src must be valid JSON; PostgreSQL vouches for that.
func appendCompact(dst, src []byte) []byte {
	from := 0 // what is before it has been appended or dropped
	for i := 0; i < len(src); {
		switch c := src[i]; {
		case c == '"':
			i = stringEnd(src, i)
		case c <= ' ':
			dst = append(dst, src[from:i]...)
			i++
			from = i
		default:
			i++
		}
	}
	return append(dst, src[from:]...)
}

// stringEnd returns the index after the string that begins at i.
func stringEnd(src []byte, i int) int {
	i++
	for {
		n := bytes.IndexByte(src[i:], '"')
		if n < 0 {
			return len(src)
		}
		quote := i + n
		i = quote + 1
		if !escaped(src, quote) {
			return i
		}
	}
}

// escaped tells whether an odd number of backslashes stands before src[i].
func escaped(src []byte, i int) bool {
	n := 0
	for n < i && src[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
