package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consume reads the shop's topic from its present end on and enters what it sees into the ledger, until ctx ends.
func consume(ctx context.Context, client *kgo.Client, l *ledger) error {
	for {
		fetches := client.PollFetches(ctx)
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		now := time.Now()
		if errs := fetches.Errors(); len(errs) > 0 {
			return fmt.Errorf("read topic %s: %w", errs[0].Topic, errs[0].Err)
		}
		var err error
		fetches.EachRecord(func(r *kgo.Record) {
			if e := enter(r, now, l); e != nil && err == nil {
				err = e
			}
		})
		if err != nil {
			return err
		}
	}
}

func enter(r *kgo.Record, now time.Time, l *ledger) error {
	var payload struct {
		EventID uuid.UUID `json:"eventId"`
		Version int64     `json:"version"`
	}
	if err := json.Unmarshal(r.Value, &payload); err != nil {
		return fmt.Errorf("read record %d of partition %d: %w", r.Offset, r.Partition, err)
	}
	l.arrive(payload.EventID, string(r.Key), payload.Version, now)
	return nil
}
