// Package certfile finds what is wrong with files of certificates that the standard library passes over in silence.
package certfile

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Check says which block of a file in PEM form is cut or damaged, and what to do about it; nil when all can be read. The standard library leaves such a block out: of a bundle that was cut
// while it was copied it would trust the first half. Text between the blocks is allowed, and blocks of other things than certificates are only to be whole.
func Check(content []byte) error {
	r := reading{}
	for text := range bytes.Lines(content) {
		r.line++
		// What is indented is no block to the standard library, either.
		switch mark := bytes.TrimLeft(text, " \t\ufeff"); {
		case bytes.HasPrefix(mark, []byte("-----B")):
			if r.block != nil {
				return r.damaged("its end is missing")
			}
			r.number, r.begun = r.number+1, r.line
			r.block = append(r.block, text...)
		case bytes.HasPrefix(mark, []byte("-----E")):
			if r.block == nil {
				r.number, r.begun = r.number+1, r.line
				return r.damaged("its beginning is missing")
			}
			r.block = append(r.block, text...)
			if why := unreadable(r.block); why != nil {
				return r.damaged(why.Error())
			}
			r.block = nil
		case r.block != nil:
			r.block = append(r.block, text...)
		}
	}
	if r.block != nil {
		return r.damaged("its end is missing")
	}
	return nil
}

// reading is how far a file was read.
type reading struct {
	// line is the one that was read last, and begun the one with which the block of that number begins.
	line, number, begun int
	// block is what was read of the block; nil between two.
	block []byte
}

func (r *reading) damaged(why string) error {
	return fmt.Errorf("block %d, at line %d, is cut or damaged (%s): put the whole file there again, or take that block out", r.number, r.begun, why)
}

// unreadable is why nothing can be done with a block that has beginning and end. A key's is not said: that could tell of the key.
func unreadable(text []byte) error {
	block, _ := pem.Decode(text)
	if block == nil {
		return errors.New("its lines are no base64, or indented")
	}
	if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
		return nil
	}
	_, err := x509.ParseCertificate(block.Bytes)
	return err
}
