//go:build unix

package devbouncer

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const defaultPoolSize = 2

// params are the settings of the section pgbouncer.
func (b *Bouncer) params() map[string]string {
	params := map[string]string{
		"listen_addr":       "",
		"listen_port":       port,
		"unix_socket_dir":   b.dir,
		"auth_type":         "trust",
		"auth_file":         filepath.Join(b.dir, "users.txt"),
		"admin_users":       adminUser,
		"pool_mode":         "transaction",
		"default_pool_size": fmt.Sprint(defaultPoolSize),
		"max_client_conn":   "1000",
		// A server that comes back is tried at once, and not after the default of 15 seconds.
		"server_login_retry":   "0.2",
		"server_tls_sslmode":   "prefer",
		"log_connections":      "0",
		"log_disconnections":   "0",
		"stats_period":         "3600",
		"server_round_robin":   "1",
		"server_fast_close":    "1",
		"client_login_timeout": "15",
	}
	if b.options.PoolSize > 0 {
		params["default_pool_size"] = fmt.Sprint(b.options.PoolSize)
	}
	maps.Copy(params, b.options.Params)
	return params
}

// writeSettings writes the two files that the bouncer reads.
func (b *Bouncer) writeSettings() error {
	var ini strings.Builder
	fmt.Fprintf(&ini, "[databases]\n* = host=%s port=%d\n\n[pgbouncer]\n", b.server.Host, b.server.Port)
	params := b.params()
	for _, name := range slices.Sorted(maps.Keys(params)) {
		fmt.Fprintf(&ini, "%s = %s\n", name, params[name])
	}
	users := fmt.Sprintf("%s %s\n%s %[3]s\n", quoted(b.server.User), quoted(b.server.Password), quoted(adminUser))
	for name, text := range map[string]string{"bouncer.ini": ini.String(), "users.txt": users} {
		path := filepath.Join(b.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		if err := b.account.Own(path); err != nil {
			return err
		}
	}
	return nil
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
