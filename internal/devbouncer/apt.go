//go:build unix

package devbouncer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// apt is apt-get with lists, cache and sources in a folder of its own: the machine's are neither needed nor changed, and root is not needed.
type apt struct{ dir string }

// prepare makes the folder and gets the list of the suite's packages.
func (a apt) prepare(ctx context.Context, suite string) error {
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "packages"} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o755); err != nil {
			return err
		}
	}
	source := fmt.Sprintf("deb [signed-by=%s] %s %s main\n", keyring, mirror(ctx), suite)
	err := errors.Join(
		os.WriteFile(filepath.Join(a.dir, "sources.list"), []byte(source), 0o644),
		os.WriteFile(filepath.Join(a.dir, "status"), nil, 0o644))
	if err != nil {
		return err
	}
	return run(a.command(ctx, "update", "--error-on=any"))
}

// download gets the packages, without installing anything, and returns their files.
func (a apt) download(ctx context.Context, packages []string) ([]string, error) {
	cmd := a.command(ctx, append([]string{"download"}, packages...)...)
	cmd.Dir = filepath.Join(a.dir, "packages")
	if err := run(cmd); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(cmd.Dir, "*.deb"))
}

func (a apt) command(ctx context.Context, args ...string) *exec.Cmd {
	options := []string{
		"-o", "Dir::State=" + filepath.Join(a.dir, "state"),
		"-o", "Dir::State::status=" + filepath.Join(a.dir, "status"),
		"-o", "Dir::Cache=" + filepath.Join(a.dir, "cache"),
		"-o", "Dir::Etc::sourcelist=" + filepath.Join(a.dir, "sources.list"),
		"-o", "Dir::Etc::sourceparts=-",
		"-o", "APT::Sandbox::User=",
		"-o", "Acquire::Retries=2",
		"-o", "Acquire::Languages=none",
		"-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
	}
	return exec.CommandContext(ctx, "apt-get", append(options, args...)...)
}

const (
	keyring       = "/usr/share/keyrings/debian-archive-keyring.gpg"
	defaultMirror = "http://deb.debian.org/debian"
)

// mirror is the one that this machine gets Debian from: another may be out of its reach.
func mirror(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").Output()
	if err != nil {
		return defaultMirror
	}
	for uri := range strings.FieldsSeq(string(out)) {
		if uri = strings.TrimSuffix(uri, "/"); strings.HasSuffix(uri, "/debian") {
			return uri
		}
	}
	return defaultMirror
}
