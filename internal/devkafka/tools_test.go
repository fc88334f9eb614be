//go:build unix

package devkafka

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingToolsAreNamedWithWhatToInstall(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	t.Setenv("JAVA_HOME", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv(libsEnv, "")

	_, err := findTools(t.Context(), slog.New(slog.DiscardHandler))
	wantError(t, err, "install Java 17")

	t.Setenv("JAVA_HOME", fakeJava(t))
	_, err = findTools(t.Context(), slog.New(slog.DiscardHandler))
	wantError(t, err, "install Maven")

	t.Setenv(libsEnv, empty)
	_, err = findTools(t.Context(), slog.New(slog.DiscardHandler))
	wantError(t, err, empty+" has no kafka_2.13-*.jar")
}

func TestGivenJarsNeedNoMaven(t *testing.T) {
	libs := t.TempDir()
	if err := os.WriteFile(filepath.Join(libs, "kafka_2.13-4.4.0.jar"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	home := fakeJava(t)
	t.Setenv("PATH", "")
	t.Setenv("JAVA_HOME", home)
	t.Setenv(libsEnv, libs)
	got, err := findTools(t.Context(), slog.New(slog.DiscardHandler))
	if want := (tools{filepath.Join(home, "bin", "java"), libs}); err != nil || got != want {
		t.Errorf("findTools: got %v, %v, want %v", got, err, want)
	}
}

func TestATooOldJavaIsNamed(t *testing.T) {
	t.Parallel()
	got := explain("java.lang.UnsupportedClassVersionError: kafka/Kafka has been compiled by a more recent version")
	if !strings.Contains(got, "install Java 17") {
		t.Errorf("explain: got %q, want what to install", got)
	}
}

func fakeJava(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "bin", "java"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return home
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error: got %v, want one that contains %q", err, part)
	}
}
