package cli

import (
	"time"

	"github.com/google/uuid"

	"github.com/outbox-relay/outbox/postgres"
	"github.com/outbox-relay/outbox/relay"
)

// The JSON form is a contract of its own: ages in seconds, names as in the metrics.
type statusObject struct {
	Name                    string       `json:"name"`
	Table                   string       `json:"table"`
	Source                  string       `json:"source"`
	Pending                 int64        `json:"pending"`
	PendingCapped           bool         `json:"pending_capped"`
	OldestPendingAgeSeconds float64      `json:"oldest_pending_age_seconds"`
	EligibleAgeSeconds      float64      `json:"oldest_eligible_age_seconds"`
	ParkedKeys              int64        `json:"parked_keys"`
	Dead                    int64        `json:"dead_events"`
	DeadCapped              bool         `json:"dead_events_capped"`
	PartialIndex            bool         `json:"partial_index"`
	FirstPublished          *time.Time   `json:"first_published_at"`
	LastPublished           *time.Time   `json:"last_published_at"`
	Paused                  pausedObject `json:"paused"`
	// Pauses are the first hundred.
	Pauses []pauseObject `json:"pauses"`
	Topics []topicObject `json:"topics"`
	Lanes  []laneObject  `json:"lanes"`
	Relays []relayObject `json:"relays"`
}

type topicObject struct {
	Topic   string `json:"topic"`
	Pending int64  `json:"pending"`
	// PendingCapped tells, as that of the whole, that counting ended at the limit.
	PendingCapped           bool    `json:"pending_capped"`
	OldestPendingAgeSeconds float64 `json:"oldest_pending_age_seconds"`
	ParkedKeys              int64   `json:"parked_keys"`
	PausedKeys              int64   `json:"paused_keys"`
	HeldCode                string  `json:"held_code"`
	HeldReason              string  `json:"held_reason"`
	// HeldSince is null when the topic is not held, Paused when nobody has paused it.
	HeldSince *time.Time   `json:"held_since"`
	Paused    *pauseObject `json:"paused"`
}

// pausedObject counts all pauses.
type pausedObject struct {
	Source bool  `json:"source"`
	Topics int64 `json:"topics"`
	Keys   int64 `json:"keys"`
}

type pauseObject struct {
	Scope        string    `json:"scope"`
	Topic        string    `json:"topic"`
	PartitionKey string    `json:"partition_key"`
	By           string    `json:"paused_by"`
	Reason       string    `json:"reason"`
	At           time.Time `json:"paused_at"`
	Pending      int64     `json:"pending"`
	// PendingCapped tells, as that of the whole, that counting ended at the limit.
	PendingCapped bool `json:"pending_capped"`
}

type laneObject struct {
	Lane             int32   `json:"lane"`
	Epoch            int64   `json:"epoch"`
	Owner            string  `json:"owner"`
	RemainingSeconds float64 `json:"remaining_seconds"`
	ParkedKeys       int64   `json:"parked_keys"`
}

type relayObject struct {
	Owner     string    `json:"owner"`
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
	Competing bool      `json:"competing"`
	Alive     bool      `json:"alive"`
	Lanes     int       `json:"lanes"`
	// SilentSince is since when Kafka answers nothing to it; null when it answers.
	SilentSince *time.Time `json:"silent_since"`
}

func statusJSON(name string, s postgres.Status) statusObject {
	o := statusObject{
		Name: name, Table: s.Table, Source: s.SourceID.String(),
		Pending: s.Pending, PendingCapped: s.PendingCapped,
		OldestPendingAgeSeconds: s.OldestAge.Seconds(), EligibleAgeSeconds: s.EligibleAge.Seconds(),
		ParkedKeys: s.ParkedKeys, Dead: s.Dead, DeadCapped: s.DeadCapped, PartialIndex: s.Indexed,
		FirstPublished: timeOrNull(s.FirstPublished), LastPublished: timeOrNull(s.LastPublished),
		Paused: pausedObject{s.Paused.Source, s.Paused.Topics, s.Paused.Keys}, Pauses: pausesJSON(s), Topics: []topicObject{}, Lanes: lanesJSON(s.Lanes), Relays: []relayObject{},
	}
	for _, t := range s.Topics {
		o.Topics = append(o.Topics, topicObject{
			t.Topic, t.Pending, t.PendingCapped, t.OldestAge.Seconds(), t.ParkedKeys, t.PausedKeys, t.HeldCode, t.HeldReason, timeOrNull(t.HeldSince), pauseOf(s, t.Topic),
		})
	}
	for _, r := range s.Relays {
		o.Relays = append(o.Relays, relayObject{
			r.ID.String(), r.Name, r.Version, r.StartedAt, r.SeenAt, r.Competing, r.Remaining > 0, lanesOf(s.Lanes, r.ID), timeOrNull(r.SilentSince),
		})
	}
	return o
}

func lanesJSON(lanes []postgres.LaneStatus) []laneObject {
	objects := []laneObject{}
	for _, l := range lanes {
		objects = append(objects, laneObject{l.Lane, l.Epoch, l.OwnerName, max(0, l.Remaining.Seconds()), l.ParkedKeys})
	}
	return objects
}

// lanesOf counts the lanes that an owner has.
func lanesOf(lanes []postgres.LaneStatus, owner uuid.UUID) (n int) {
	for _, l := range lanes {
		if l.Owner == owner && l.Remaining > 0 {
			n++
		}
	}
	return n
}

func pausesJSON(s postgres.Status) []pauseObject {
	list := []pauseObject{}
	for _, p := range s.Pauses {
		list = append(list, pauseJSON(p))
	}
	return list
}

func pauseJSON(p postgres.PauseStatus) pauseObject {
	return pauseObject{string(p.Scope), p.Topic, p.PartitionKey, p.By, p.Reason, p.At.UTC(), p.Pending, p.PendingCapped}
}

// pauseOf is the pause of a topic itself; nil when nobody has paused it.
func pauseOf(s postgres.Status, topic string) *pauseObject {
	for _, p := range s.Pauses {
		if p.Scope == relay.PauseTopic && p.Topic == topic {
			o := pauseJSON(p)
			return &o
		}
	}
	return nil
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
