package devpg

import (
	"os"
	"path/filepath"
	"time"

	"github.com/outbox-relay/outbox/internal/devaccount"
	"github.com/outbox-relay/outbox/internal/devtemp"
)

// folderPrefix begins the name of every folder that this package makes under the temporary one.
const folderPrefix = "outbox-devpg-"

// folder is where a server lives: data/ (the server's), server.log, and lock, which this process holds locked while it lives.
type folder struct {
	path string
	keep bool
	lock *fileLock
}

func (f *folder) data() string { return filepath.Join(f.path, "data") }
func (f *folder) log() string  { return filepath.Join(f.path, "server.log") }

// openFolder makes or opens a folder that acc can work in. dir is "" for a throw-away one, which is made in temp.
func openFolder(dir, temp string, acc *devaccount.Account) (*folder, error) {
	f := &folder{path: dir, keep: dir != ""}
	if !f.keep {
		for _, left := range devtemp.Folders() {
			sweepFolders(left, time.Now())
		}
		made, err := os.MkdirTemp(temp, folderPrefix)
		if err != nil {
			return nil, err
		}
		f.path = made
	}
	if err := f.prepare(acc); err != nil {
		if !f.keep {
			os.RemoveAll(f.path)
		}
		return nil, err
	}
	return f, nil
}

func (f *folder) prepare(acc *devaccount.Account) error {
	if err := os.MkdirAll(f.data(), 0o700); err != nil {
		return err
	}
	path, err := filepath.Abs(f.path)
	if err != nil {
		return err
	}
	f.path = path
	if f.lock, err = lockFile(filepath.Join(f.path, "lock")); err != nil {
		return err
	}
	if acc == nil {
		return nil
	}
	// MkdirTemp lets nobody else in; the server's user has to pass through to its data.
	if err := os.Chmod(f.path, 0o755); err != nil {
		return err
	}
	return acc.Own(f.data())
}

// close gives the folder up, and removes it if it was made for one server.
func (f *folder) close() error {
	defer f.lock.release()
	if f.keep {
		return nil
	}
	return os.RemoveAll(f.path)
}

// sweepFolders removes the folders whose process is gone. A server that might still run in one ends by itself within a minute of
// missing its files. Young folders are left alone: their process may not have locked them yet.
func sweepFolders(temp string, now time.Time) {
	found, err := filepath.Glob(filepath.Join(temp, folderPrefix+"*"))
	if err != nil {
		return
	}
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || now.Sub(info.ModTime()) < time.Minute {
			continue
		}
		if lock, ok := tryLockFile(filepath.Join(path, "lock")); ok {
			os.RemoveAll(path)
			lock.release()
		}
	}
}
