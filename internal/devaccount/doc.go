// Package devaccount chooses the user that a throw-away server runs as, and the folder where such servers' programs stay. PostgreSQL and PgBouncer refuse to run
// as root, as whom tests in a container often run.
package devaccount
