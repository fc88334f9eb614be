//go:build !unix

package benchmark

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return -1 }
