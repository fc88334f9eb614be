package await

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// Journal is a log that can be searched while it is written. The zero value keeps what it is given and shows it nowhere.
type Journal struct {
	// Out gets everything, too; it may be nil.
	Out io.Writer

	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text.Write(p)
	if j.Out == nil {
		return len(p), nil
	}
	return j.Out.Write(p)
}

// Says tells whether the text is in it.
func (j *Journal) Says(text string) bool { return strings.Contains(j.Text(), text) }

// Text is all of it so far.
func (j *Journal) Text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
