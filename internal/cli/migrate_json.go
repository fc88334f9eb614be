package cli

import (
	"fmt"

	"github.com/outbox-relay/outbox/migrate"
)

// migrateStatusObject is the form of migrate status --json.
type migrateStatusObject struct {
	Table   string   `json:"table"`
	Ready   bool     `json:"ready"`
	Applied []string `json:"applied"`
	Pending []string `json:"pending"`
	// Differences are between the table and the contract, each with the statement that mends it.
	Differences []string       `json:"differences"`
	Sources     []sourceObject `json:"sources"`
	// Problem says why the relay must not start; "" when it may.
	Problem string `json:"problem,omitempty"`
}

type sourceObject struct {
	Table    string `json:"table"`
	Lanes    int    `json:"lanes"`
	Delivery string `json:"delivery"`
	// Gone tells that the table was dropped or renamed; Renamed is what it is called now.
	Gone    bool   `json:"gone"`
	Renamed string `json:"renamed,omitempty"`
}

// encodeMigrateStatus ends with an error where a relay could not work, as the text does.
func (a *app) encodeMigrateStatus(s migrate.Status) error {
	o := migrateStatusObject{Table: s.Table.String(), Ready: s.Err() == nil, Applied: texts(s.Applied), Pending: texts(s.Pending), Differences: texts(s.Differences), Sources: []sourceObject{}}
	for _, source := range s.Sources {
		object := sourceObject{Table: source.Table.String(), Lanes: source.Lanes, Delivery: fmt.Sprint(source.Delivery), Gone: source.Gone}
		if source.Renamed != (migrate.Table{}) {
			object.Renamed = source.Renamed.String()
		}
		o.Sources = append(o.Sources, object)
	}
	if err := s.Err(); err != nil {
		o.Problem = err.Error()
	}
	if err := a.encode(o); err != nil || o.Ready {
		return err
	}
	return &quietError{}
}

func texts[T any](list []T) []string {
	all := []string{}
	for _, v := range list {
		all = append(all, fmt.Sprint(v))
	}
	return all
}
