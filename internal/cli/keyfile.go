package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/config"
)

// checkKey refuses a client's key that others can read, as libpq does; the driver takes any. Where it comes from a service file it is not looked at.
func (t target) checkKey(env environment, cc *pgx.ConnConfig) error {
	if cc.TLSConfig == nil && len(cc.Fallbacks) == 0 || cc.SSLCertMode == "disable" {
		return nil
	}
	path := t.parameter(env, "sslkey")
	if path == "" && env["HOME"] != "" {
		path = filepath.Join(env["HOME"], ".postgresql", "postgresql.key")
	}
	// A file that is named and cannot be read, the driver has refused before.
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && isExposed(info) {
		return exposedKey(t.typed, path, info)
	}
	return nil
}

func exposedKey(typed bool, path string, info fs.FileInfo) error {
	return config.Wrong(typed, fmt.Errorf("sslkey: %s can be read by others (mode %04o): chmod 600 it; one that root owns may be 640, such as a secret of Kubernetes with defaultMode: 0440", path, info.Mode().Perm()))
}
