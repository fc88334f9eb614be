//go:build !unix

package devaccount

import "fmt"

// Account is the user that a server runs as; there is none here.
type Account struct{ name string }

// Unprivileged refuses.
func Unprivileged(program string) (*Account, error) {
	return nil, fmt.Errorf("a throw-away %s needs Linux or macOS; use a server of your own", program)
}

// Own does nothing.
func (*Account) Own(string) error { return nil }
