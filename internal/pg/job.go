package pg

import "fmt"

// JobGoesOn tells of a row of outbox.job, by its alias, that somebody runs it. Whoever does says so every few seconds; after half a minute without a word the job is over
// for good, by the database's clock: its process was killed, or cut off, and nobody waits for what is left of it.
func JobGoesOn(alias string) string {
	return fmt.Sprintf(`(%[1]s.state = 'running' AND %[1]s.seen_at > clock_timestamp() - interval '30 seconds')`, alias)
}
