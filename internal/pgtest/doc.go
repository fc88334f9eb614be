// Package pgtest gives each test a PostgreSQL database of its own, on a real server. A server that cannot be had fails the test.
//
// The server is the one at DATABASE_URL, whose role must be allowed to create databases, or else a throw-away one that all tests of the
// process share; OUTBOX_TEST_PG_VERSION chooses its major version. Databases are born migrated, as copies of one template, and
// are dropped when their test ends.
package pgtest
