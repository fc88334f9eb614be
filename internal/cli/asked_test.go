package cli

import "testing"

// The audit is read by whoever wants to do it again, or undo it.
func TestWhatWasAskedForIsShownAsItsCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ verb, filter, want string }{
		{"retry", `{"events": {"state": "any"}}`, "events retry|--all"},
		{"skip", `{"events": {"topic": "shop.order", "state": "parked", "max_id": "30", "min_age_ns": 86400000000000, "max_age_ns": 5400000000000}}`,
			"events skip|--state parked --topic shop.order --older-than 24h --newer-than 1h30m --max-id 30"},
		{"dead", `{"events": {"partition_key": "", "error": "too large", "created_from": "2026-01-31T14:00:00Z", "aggregate_type": "Order", "aggregate_id": "it's"}}`,
			`events dead|--empty-key --aggregate-type Order --aggregate-id 'it'\''s' --error 'too large' --from 2026-01-31T14:00:00Z`},
		{"replay", `{"events": {"events": [{"id": "9007199254740993"}, {"event_id": "0190f6c2-7d1e-7a55-8f0e-2f3c9a3d5b11"}]}}`, "replay|9007199254740993 0190f6c2-7d1e-7a55-8f0e-2f3c9a3d5b11"},
		{"skip", `{"event": {"id": "7"}, "request": "12"}`, "events skip|7"},
		{"unpark", `{"keys": {"topic": "shop.order", "code": "MESSAGE_TOO_LARGE"}}`, "keys unpark|--topic shop.order --code MESSAGE_TOO_LARGE"},
		{"unpark", `{"topic": "shop.order", "partition_key": "key 1"}`, "keys unpark|--topic shop.order --key 'key 1'"},
		{"unpark", `{"topic": "shop.order"}`, "keys unpark|--topic shop.order --empty-key"},
		{"pause", `{"scope": "topic", "topic": "shop.order"}`, "pause|topic shop.order"},
		{"resume", `{"scope": "key", "topic": "shop.order", "partition_key": "order 7"}`, "resume|key shop.order 'order 7'"},
		{"pause", `{"scope": "source"}`, "pause|relay"},
		{"cancel", `{"job": "9"}`, "jobs cancel|9"},
		{"cancel", `{"request": "43"}`, "jobs cancel|--request 43"},
		{"prune", `{"dead": {"older_than": "1h30m"}, "events": {"keep": 5, "older_than": "168h"}}`, "prune|--older-than 168h --keep 5 --dead 1h30m"},
		{"prune", `{"partitions": {"ahead": 3, "older_than": "0s"}}`, "prune|--partitions --older-than 0s --ahead 3"},
		{"skip", `{"events": {"newly_made": {"x": 1}}}`, `events skip|newly_made={"x":1}`},
		{"redrive", `{"topics": ["b.order"], "error": "never", "rate": 1000}`, "dlt redrive|b.order --error never --rate 1000"},
		{"redrive", `{"letters": [{"topic": "dead.b.order", "partition": 1, "offset": "2"}], "again": true, "rate": 100}`, "dlt redrive|dead.b.order/1/2 --rate 100 --again"},
		{"purge", `{"topics": ["dead.b.order"], "all": true, "through": [{"topic": "dead.b.order", "partition": 0, "offset": "9"}]}`, "dlt purge|dead.b.order --all"},
		{"forget", `{"consumer": "billing", "event_ids": ["a", "b"]}`, "inbox forget|--consumer billing --event-id a,b"},
		{"skip", `{}`, "skip|"},
		{"skip", `nonsense`, "skip|nonsense"},
	} {
		if what, to := asked(c.verb, []byte(c.filter)); what+"|"+to != c.want {
			t.Errorf("%s %s is shown as %s|%s, want %s", c.verb, c.filter, what, to, c.want)
		}
	}
}
