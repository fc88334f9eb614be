// Package devbouncer runs PgBouncer itself for tests, in front of a PostgreSQL server, in transaction mode unless told otherwise.
//
// It uses the program that it finds on the machine, and fetches Debian's packages with apt-get into a cache folder when there is none of the
// version that is asked for; neither root nor an installation is needed. A bouncer listens only on a Unix socket in a folder of its own. It
// can be killed and started again under the same address, and commanded through its admin console. On Linux none outlives the process
// that started it.
package devbouncer
