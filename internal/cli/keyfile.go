package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/certfile"
	"github.com/outbox-relay/outbox/internal/config"
	"github.com/outbox-relay/outbox/internal/patience"
)

// checkKey refuses a client's key that others can read, as libpq does; the driver takes any. Where it comes from a service file it is not looked at.
func (t target) checkKey(env environment, cc *pgx.ConnConfig) error {
	if !mayEncrypt(cc) || cc.SSLCertMode == "disable" {
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

func mayEncrypt(cc *pgx.ConnConfig) bool { return cc.TLSConfig != nil || len(cc.Fallbacks) > 0 }

// maxCertificates is more than any file of certificates has.
const maxCertificates = 8 << 20

// checkCertificates refuses files of certificates that are cut: the driver takes what stands in front of the cut for all. What cannot be read again, such as a pipe, is not looked at.
func (t target) checkCertificates(env environment, cc *pgx.ConnConfig) error {
	if !mayEncrypt(cc) {
		return nil
	}
	for _, parameter := range []string{"sslrootcert", "sslcert"} {
		path := t.parameter(env, parameter)
		content, err := patience.RegularFile(path, parameter, maxCertificates)
		if err != nil {
			continue
		}
		if err := certfile.Check(content); err != nil {
			return config.Wrong(t.typed, fmt.Errorf("%s: %s: %w", parameter, path, err))
		}
	}
	return nil
}

func exposedKey(typed bool, path string, info fs.FileInfo) error {
	return config.Wrong(typed, fmt.Errorf("sslkey: %s can be read by others (mode %04o): chmod 600 it; one that root owns may be 640, such as a secret of Kubernetes with defaultMode: 0440", path, info.Mode().Perm()))
}
