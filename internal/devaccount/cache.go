package devaccount

import (
	"os"
	"path/filepath"
)

// String names the account for people.
func (a *Account) String() string {
	if a == nil {
		return "this user"
	}
	return "user " + a.name
}

// CacheFolder makes the folder of that name where fetched programs stay. The one of root is outside its home: the server runs as another user, who
// has to reach it.
func CacheFolder(name string) (string, error) {
	base := "/var/cache"
	if os.Geteuid() != 0 {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		base = dir
	}
	dir := filepath.Join(base, name)
	return dir, os.MkdirAll(dir, 0o755)
}
