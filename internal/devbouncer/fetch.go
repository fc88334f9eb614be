//go:build unix

package devbouncer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/outbox-relay/outbox/internal/devaccount"
)

// release is one of Debian's, with the packages that its PgBouncer needs down to the C library: with that and its own loader the program
// runs on any Linux.
type release struct {
	version, suite string
	packages       []string
}

// releases are what can be fetched; the first is taken where the version does not matter.
func releases() []release {
	common := []string{"pgbouncer", "libc6", "libpam0g", "libsystemd0", "libcap2", "libaudit1", "libcap-ng0", "libzstd1", "liblz4-1", "liblzma5",
		"libgcrypt20", "libgpg-error0"}
	return []release{
		{"1.18", "bookworm", append([]string{"libevent-2.1-7", "libc-ares2", "libssl3"}, common...)},
		{"1.24", "trixie", append([]string{"libevent-2.1-7t64", "libcares2", "libssl3t64", "zlib1g"}, common...)},
	}
}

// fetchLimit bounds fetching: a mirror that does not answer must not hold up the tests for ever.
const fetchLimit = 5 * time.Minute

// fetch gets the program into a folder of this user's cache, once; processes that do it at the same time wait for the first one.
func fetch(ctx context.Context, version string) (program, error) {
	chosen := slices.IndexFunc(releases(), func(r release) bool { return version == "" || r.version == version })
	if chosen < 0 {
		return program{}, fmt.Errorf("version %s is none of those that can be fetched: 1.18 and 1.24", version)
	}
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return program{}, fmt.Errorf("it needs %s, as Debian has it: %w", tool, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	cache, err := devaccount.CacheFolder("outbox-devbouncer")
	if err != nil {
		return program{}, err
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return program{}, err
	}
	defer unlock()
	r := releases()[chosen]
	target := filepath.Join(cache, r.version)
	if p, err := unpacked(target); err == nil {
		return p, nil
	}
	if err := r.fetchInto(ctx, cache, target); err != nil {
		return program{}, fmt.Errorf("get PgBouncer %s of Debian %s: %w", r.version, r.suite, err)
	}
	return unpacked(target)
}

// fetchInto downloads and unpacks next to the target and then renames, so that the target is whole or absent.
func (r release) fetchInto(ctx context.Context, cache, target string) error {
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	a := apt{dir: work}
	if err := a.prepare(ctx, r.suite); err != nil {
		return err
	}
	packages, err := a.download(ctx, r.packages)
	if err != nil {
		return err
	}
	root := filepath.Join(work, "root")
	for _, p := range packages {
		if err := run(exec.CommandContext(ctx, "dpkg-deb", "-x", p, root)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return errors.Join(os.Chmod(root, 0o755), os.Rename(root, target))
}

// run runs the command, and gives the end of its output with the error.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		const size = 1000
		return fmt.Errorf("run %s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(out[max(0, len(out)-size):])))
	}
	return nil
}

// lock waits until no other process holds the file locked.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			// Closing alone is not enough: a child between fork and exec has a copy of the descriptor.
			return func() { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN); f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: %w (%w)", path, err, ctx.Err()), f.Close())
		case <-tick.C:
		}
	}
}
