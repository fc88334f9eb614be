// Package outboxsql writes events within a transaction of database/sql, as package outbox does for pgx. It works with every driver for
// PostgreSQL, among them lib/pq and pgx's stdlib; what is built on database/sql, such as bun, sqlx, ent and GORM, can give its *sql.Tx.
package outboxsql
