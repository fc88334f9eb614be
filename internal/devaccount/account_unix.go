//go:build unix

package devaccount

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Account is the user that a server runs as; nil is the user of this process.
type Account struct {
	name     string
	uid, gid uint32
}

// Unprivileged chooses the account of the program, which refuses to run as root: root gives it to another user.
func Unprivileged(program string) (*Account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return &Account{name, uint32(uid), uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("%s does not run as root, and there is neither a user postgres nor nobody; add one, or run as another user", program)
}

// Own gives the file or folder to the account.
func (a *Account) Own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// Credential is what a process of the account is started with; nil is that of this process.
func (a *Account) Credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}
