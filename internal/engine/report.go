package engine

import "time"

// WorthReporting is from when on a relay reports that Kafka is silent: an acknowledgement may take a while, and a report is looked at for as long as it is the last.
const WorthReporting = 3 * time.Second

// mostReportEvery bounds how old a relay's report may be with a long lease.
const mostReportEvery = 5 * time.Second

// ReportEvery is how often a relay with a lease of ttl says what it has shown.
func ReportEvery(ttl time.Duration) time.Duration { return min(ttl/3, mostReportEvery) }
