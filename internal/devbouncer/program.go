//go:build unix

package devbouncer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// program is a PgBouncer that can be run.
type program struct {
	path string
	// loader and libraries are those that a fetched program brings with it; "" for one that is installed.
	loader, libraries string
	version           string // such as "1.18.0"
}

// command runs the program with the arguments.
func (p program) command(args ...string) *exec.Cmd {
	if p.loader == "" {
		return exec.Command(p.path, args...)
	}
	return exec.Command(p.loader, append([]string{"--library-path", p.libraries, p.path}, args...)...)
}

// findProgram looks where OUTBOX_PGBOUNCER points, then on the machine, then fetches.
func findProgram(ctx context.Context, version string) (program, error) {
	if path := os.Getenv("OUTBOX_PGBOUNCER"); path != "" {
		p, err := inspect(program{path: path})
		if err != nil {
			return program{}, fmt.Errorf("OUTBOX_PGBOUNCER=%s: %w; it has to be the program pgbouncer", path, err)
		}
		if p.is(version) {
			return p, nil
		}
	}
	for _, path := range installed() {
		if p, err := inspect(program{path: path}); err == nil && p.is(version) {
			return p, nil
		}
	}
	p, err := fetch(ctx, version)
	if err != nil {
		return program{}, fmt.Errorf("there is none%s on this machine, and fetching one: %w; install PgBouncer (Debian: apt-get install pgbouncer), "+
			"or set OUTBOX_PGBOUNCER to the path of the program", ofVersion(version), err)
	}
	return p, nil
}

func ofVersion(version string) string {
	if version == "" {
		return ""
	}
	return " of version " + version
}

// installed lists where systems keep the program; Debian's folder is not in every user's PATH.
func installed() []string {
	paths := []string{"/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer", "/opt/homebrew/bin/pgbouncer"}
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		paths = append([]string{path}, paths...)
	}
	return paths
}

// is tells whether the program is of the version wanted.
func (p program) is(version string) bool {
	return version == "" || p.version == version || strings.HasPrefix(p.version, version+".")
}

// versionText finds the version in what `pgbouncer --version` prints: "PgBouncer 1.18.0", and "PgBouncer version 1.8.1" of old.
var versionText = regexp.MustCompile(`(?i)pgbouncer (?:version )?(\d+\.\d+\S*)`)

// inspect completes the program by its version.
func inspect(p program) (program, error) {
	out, err := p.command("--version").Output()
	if err != nil {
		return program{}, err
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return program{}, errors.New("pgbouncer --version printed no version")
	}
	p.version = string(m[1])
	return p, nil
}

// unpacked is the program in a folder of unpacked packages, to be run by the packages' own loader.
func unpacked(root string) (program, error) {
	loader, err := one(filepath.Join(root, "lib*", "*", "ld-linux*.so.*"), filepath.Join(root, "usr", "lib", "*", "ld-linux*.so.*"))
	if err != nil {
		return program{}, err
	}
	triplet := filepath.Base(filepath.Dir(loader))
	libraries := filepath.Join(root, "lib", triplet) + ":" + filepath.Join(root, "usr", "lib", triplet)
	return inspect(program{path: filepath.Join(root, "usr", "sbin", "pgbouncer"), loader: loader, libraries: libraries})
}

// one is the first file that fits one of the patterns.
func one(patterns ...string) (string, error) {
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("nothing fits %s", strings.Join(patterns, " or "))
}
