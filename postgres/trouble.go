package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox/internal/pg"
)

// What follows is for whatever uses the database, also a service that writes events.

// AsUTF8 makes the texts of a session UTF-8, which is what Kafka gets and what lanes are computed from, whatever the database's encoding. A
// database in SQL_ASCII has no encoding: there the session gets the bytes as they were written. In a database in UTF8 it does nothing, and elsewhere it
// is one statement, of a kind that poolers carry along. Give it to a pool as AfterConnect.
func AsUTF8(ctx context.Context, conn *pgx.Conn) error { return pg.AsUTF8(ctx, conn) }

// PoolerTrouble is what stands between a client and a pooler.
type PoolerTrouble = pg.PoolerTrouble

// FindPoolerTrouble recognises errors by which poolers, above all PgBouncer, refuse a client or show that a client's settings do not suit
// them; the ones by which a PostgreSQL server does the same are none of its business.
func FindPoolerTrouble(err error) (PoolerTrouble, bool) { return pg.FindPoolerTrouble(err) }

// TLSTrouble is why client and server do not get a secured connection.
type TLSTrouble = pg.TLSTrouble

// FindTLSTrouble recognises errors of connections by which one end refuses the other's certificate, or the server talks no TLS.
func FindTLSTrouble(err error) (TLSTrouble, bool) { return pg.FindTLSTrouble(err) }

// UnknownTableError tells that a table cannot be relayed, because the database does not have it, or has not registered it as a source. It is
// relay.ErrConfiguration.
type UnknownTableError = pg.UnknownTableError
