// Package migrate makes the outbox table and the schema outbox, where the relay keeps its own state, and tells whether an existing table
// fits.
//
// The two have different owners. The outbox table is the contract with the services that write events: [Up] creates it when it is
// missing, and never changes one that is there; [Check] says what is different and how to mend it. The schema outbox is ours alone: it
// is made by the numbered files in sql/, each applied once, in a transaction of its own, and recorded in outbox.migration with the
// checksum of its text. Released files are never edited.
//
// [Up] may run at the same time in many processes, and through a pooler that gives each transaction another connection: every step
// takes an advisory lock that ends with its transaction, and looks again at what is left to do.
//
// A relay never migrates by itself; it looks at [Status] and refuses to start on what is missing.
package migrate
