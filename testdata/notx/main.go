// Command notx must not compile: each line marked "refused" passes something that is no transaction.
package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox"
)

func main() {
	ctx := context.Background()
	var pool *pgxpool.Pool
	var pooled *pgxpool.Conn
	var conn *pgx.Conn
	var db *sql.DB
	var single *sql.Conn
	outbox.Write(ctx, pool)   // refused
	outbox.Write(ctx, pooled) // refused
	outbox.Write(ctx, conn)   // refused
	outbox.Write(ctx, db)     // refused
	outbox.Write(ctx, single) // refused

	var tx pgx.Tx
	var pooledTx *pgxpool.Tx
	outbox.Write(ctx, tx)
	outbox.Write(ctx, pooledTx)
}
