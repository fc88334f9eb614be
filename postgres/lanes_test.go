package postgres

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox/internal/lanesql"
	"github.com/outbox-relay/outbox/relay"
)

type laneVector struct {
	Key    string
	Repeat int
	Lanes  map[string]int32
}

func laneVectors(t *testing.T) []laneVector {
	t.Helper()
	data, err := os.ReadFile("testdata/lanes.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []laneVector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 20 {
		t.Fatalf("testdata/lanes.json holds %d vectors, want at least 20", len(vectors))
	}
	return vectors
}

func TestLaneIsTheSameInGoAndSQL(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	for _, v := range laneVectors(t) {
		key := strings.Repeat(v.Key, v.Repeat)
		for number, want := range v.Lanes {
			lanes, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			if got := relay.Lane(key, lanes); got != want {
				t.Errorf("lane(%.20q, %d) = %d, want %d", key, lanes, got, want)
			}
			got := queryOne[int32](t, db, "SELECT "+lanesql.Of("$1::text", "$2::integer"), key, lanes)
			if got != want {
				t.Errorf("laneSQL of %.20q and %d lanes = %d, want %d", key, lanes, got, want)
			}
		}
	}
}
