//go:build unix

package devkafka

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Version is the version of Apache Kafka that runs.
const Version = "4.4.0"

// libsEnv names a folder with Kafka's jars, for machines that keep them.
const libsEnv = "OUTBOX_KAFKA_LIBS"

//go:embed pom.xml
var pom []byte

// tools is what a node is run with.
type tools struct {
	java string
	libs string // folder of jars
}

func findTools(ctx context.Context, log *slog.Logger) (tools, error) {
	java, err := findJava()
	if err != nil {
		return tools{}, err
	}
	libs, err := findLibs(ctx, log)
	if err != nil {
		return tools{}, fmt.Errorf("find Kafka's jars: %w", err)
	}
	return tools{java, libs}, nil
}

func findJava() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		path, err := exec.LookPath(filepath.Join(home, "bin", "java"))
		if err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("java")
	if err != nil {
		return "", errors.New("find java: not in JAVA_HOME nor in PATH; install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless)")
	}
	return path, nil
}

func findLibs(ctx context.Context, log *slog.Logger) (string, error) {
	if libs := os.Getenv(libsEnv); libs != "" {
		return libs, checkLibs(libs)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w; set XDG_CACHE_HOME, or %s to a folder with the jars", err, libsEnv)
	}
	libs := filepath.Join(cache, "outbox", "kafka-"+Version)
	if _, err := os.Stat(libs); errors.Is(err, fs.ErrNotExist) {
		return libs, fetchOnce(ctx, libs, log)
	}
	return libs, checkLibs(libs)
}

// checkLibs looks for Kafka's own jar.
func checkLibs(libs string) error {
	found, err := filepath.Glob(filepath.Join(libs, "kafka_2.13-*.jar"))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("folder %s has no kafka_2.13-*.jar; remove the folder to have it fetched again, or unset %s", libs, libsEnv)
	}
	return nil
}

// fetchOnce fetches the jars while it holds a lock, so that test processes that start together fetch them once.
func fetchOnce(ctx context.Context, libs string, log *slog.Logger) error {
	if err := os.MkdirAll(filepath.Dir(libs), 0o755); err != nil {
		return fmt.Errorf("make cache folder: %w", err)
	}
	lock, err := waitLock(ctx, libs+".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := os.Stat(libs); err == nil {
		return checkLibs(libs)
	}
	log.Info("fetching Kafka with Maven", "version", Version, "folder", libs)
	return fetch(ctx, libs)
}

// fetch gives the folder its name only when it is complete.
func fetch(ctx context.Context, libs string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("mvn is not in PATH; install Maven (Debian: apt-get install maven), or set %s to a folder with the jars", libsEnv)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(libs), "fetch-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := os.WriteFile(filepath.Join(tmp, "pom.xml"), pom, 0o644); err != nil {
		return fmt.Errorf("write pom.xml: %w", err)
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=libs")
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run mvn dependency:copy-dependencies: %w: %s", err, lastLines(strings.TrimSpace(string(out)), 10))
	}
	if err := checkLibs(filepath.Join(tmp, "libs")); err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, "libs"), libs)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
