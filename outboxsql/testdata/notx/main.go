// Command notx must not compile: each line marked "refused" passes something that is no transaction.
package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox/outboxsql"
)

func main() {
	ctx := context.Background()
	var db *sql.DB
	var conn *sql.Conn
	var pool *pgxpool.Pool
	var pgxTx pgx.Tx
	outboxsql.Write(ctx, db)    // refused
	outboxsql.Write(ctx, conn)  // refused
	outboxsql.Write(ctx, pool)  // refused
	outboxsql.Write(ctx, pgxTx) // refused

	var tx *sql.Tx
	outboxsql.Write(ctx, tx)
}
