//go:build unix

package devbouncer

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that the bouncer runs as; nil is the user of this process.
type account struct {
	name     string
	uid, gid int
}

// unprivileged chooses the account: the bouncer refuses to run as root, so root gives it to another user.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil && uid != 0 {
			return &account{name, uid, gid}, nil
		}
	}
	return nil, errors.New("PgBouncer does not run as root, and there is neither a user postgres nor nobody; add one, or run as another user")
}

func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

func (a *account) String() string {
	if a == nil {
		return "this user"
	}
	return "user " + a.name
}
