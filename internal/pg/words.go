package pg

import "time"

// Clock is a time for people.
func Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
