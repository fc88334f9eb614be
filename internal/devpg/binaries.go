package devpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// oldest is the oldest major version that the product supports.
const oldest = 14

// binaries is a folder of server programs.
type binaries struct {
	dir     string
	version string // such as "15.13"
	major   int
}

// program is the path of one program.
func (b binaries) program(name string) string { return filepath.Join(b.dir, name) }

// findBinaries looks where OUTBOX_PG_BIN points, then on the machine, then fetches. major is "" for any.
func findBinaries(major string) (binaries, error) {
	want := 0
	if major != "" {
		n, err := strconv.Atoi(major)
		if err != nil || n < oldest {
			return binaries{}, fmt.Errorf("version %q: want a major version from %d on, such as 15", major, oldest)
		}
		want = n
	}
	dirs := localFolders()
	if dir := os.Getenv("OUTBOX_PG_BIN"); dir != "" {
		if _, err := inspect(dir); err != nil {
			return binaries{}, fmt.Errorf("OUTBOX_PG_BIN=%s: %w; it has to be the bin folder of a PostgreSQL server", dir, err)
		}
		dirs = slices.Insert(dirs, 0, dir)
	}
	for _, dir := range dirs {
		b, err := inspect(dir)
		if err == nil && (b.major == want || want == 0 && b.major >= oldest) {
			return b, nil
		}
	}
	b, err := fetch(want)
	if err != nil {
		return binaries{}, fmt.Errorf("no local server%s, and fetching one: %w; install PostgreSQL (Debian: apt-get install postgresql), "+
			"or set OUTBOX_PG_BIN to the bin folder of one", ofVersion(want), err)
	}
	return b, nil
}

func ofVersion(major int) string {
	if major == 0 {
		return ""
	}
	return fmt.Sprintf(" of version %d", major)
}

// localFolders lists where systems keep the programs, the likeliest and newest first.
func localFolders() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/usr/libexec/postgresql*",
		"/usr/local/pgsql/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		slices.Sort(found)
		slices.Reverse(found)
		dirs = append(dirs, found...)
	}
	return dirs
}

// versionText finds the version in what `postgres --version` prints: "postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)".
var versionText = regexp.MustCompile(`\(PostgreSQL\) ((\d+)[^ \n]*)`)

// inspect tells which version a folder holds, if it holds a server at all.
func inspect(dir string) (binaries, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return binaries{}, err
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, err
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return binaries{}, errors.New("postgres --version printed no version")
	}
	major, err := strconv.Atoi(string(m[2]))
	return binaries{dir: dir, version: string(m[1]), major: major}, err
}
