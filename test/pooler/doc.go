//go:build integration

// Package pooler holds the tests of the product behind PgBouncer in transaction mode: writers, relay, migrations and the operators' commands,
// over a real PostgreSQL server, with a broker in the same process.
//
// [github.com/outbox-relay/outbox/internal/devbouncer] finds or fetches the bouncers. They run with the build tag integration.
package pooler
