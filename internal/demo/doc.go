// Package demo is a small shop that shows the product at work: writers commit orders and their events and roll some back, a relay
// publishes, a consumer reads, and a ledger compares what was committed with what arrived.
package demo
