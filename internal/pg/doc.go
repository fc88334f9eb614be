// Package pg is what all statements on a source stand on, those of the relay as well as those of the operators: how a table is named ([Table]), what the
// database says of the source ([ReadSource]), connections and transactions that end in bounded time ([Connector], [Runner], [InTx]), what a
// server's error means ([Code], [Mark], [LacksRight], [UnknownTable]), and texts and keys as the database stores them ([Storable], [KeyHash]). It decides nothing about events.
package pg
