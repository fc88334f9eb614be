package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRatioIsTakenWithinThePair(t *testing.T) {
	t.Parallel()
	got := compare(Measure{Better: higher}, []float64{300, 10, 90}, []float64{100, 5, 30})
	// The machine was slow during the second pair; the ratio of the medians would be 3 as well, but not its range.
	want := Ratio{Series: Series{Values: []float64{3, 2, 3}, Median: 3}, Min: 2, Max: 3}
	if !reflect.DeepEqual(got.Ratio, want) {
		t.Errorf("got %+v, want %+v", got.Ratio, want)
	}
	if got.Ours.Median != 90 || got.Other.Median != 30 {
		t.Errorf("medians: got %v and %v, want 90 and 30", got.Ours.Median, got.Other.Median)
	}
}

func TestRatioOfLatenciesIsAboveOneWhenTheRelayIsQuicker(t *testing.T) {
	t.Parallel()
	if got := compare(Measure{Better: lower}, []float64{2}, []float64{250}).Ratio.Median; got != 125 {
		t.Errorf("got %v, want 125", got)
	}
}

func TestALatencyOfNothingStillHasARatio(t *testing.T) {
	t.Parallel()
	m := compare(Measure{Better: lower}, []float64{-0.4}, []float64{0.2})
	if _, err := json.Marshal(m); err != nil || m.Ratio.Median != 200 {
		t.Errorf("got %v, %v, want 200 and no error", m.Ratio.Median, err)
	}
}

func TestRanksAndMedians(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := 100; i > 0; i-- {
		hundred = append(hundred, time.Duration(i)*time.Millisecond)
	}
	if got, want := spreadOf(hundred), (spread{50 * time.Millisecond, 95 * time.Millisecond, 99 * time.Millisecond}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := spreadOf([]time.Duration{7}); got != (spread{7, 7, 7}) {
		t.Errorf("of one value: got %v", got)
	}
	if got := spreadOf(nil); got != (spread{}) {
		t.Errorf("of none: got %v", got)
	}
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 4}, 4}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.values, got, c.want)
		}
	}
}

func TestSmokeFailsOnlyWhenAJudgedRatioIsBelowOne(t *testing.T) {
	t.Parallel()
	slow := compare(Measure{Name: "drain", Better: higher}, []float64{9}, []float64{10})
	if err := tooSlow([]Measure{slow}); err != nil {
		t.Errorf("not judged: got %v, want nil", err)
	}
	slow.Judged = true
	if err := tooSlow([]Measure{slow}); err == nil || !strings.Contains(err.Error(), "drain (0.90)") {
		t.Errorf("judged: got %v, want one that names drain and 0.90", err)
	}
	even := compare(Measure{Better: higher, Judged: true}, []float64{10}, []float64{10})
	if err := tooSlow([]Measure{even}); err != nil {
		t.Errorf("even: got %v, want nil", err)
	}
}

func TestTheReportSaysWhatWasMeasured(t *testing.T) {
	t.Parallel()
	m := compare(Measure{Name: "drain: relay, mark", Unit: "events/s", Against: "reference", Better: higher}, []float64{91_234}, []float64{28_500})
	m.aim("at least 2.5 times the reference", true)
	r := Report{Settings: "1 pairs", Machine: Machine{Cores: 2, FSync: "on", PostgreSQL: "15.1"}, Measures: []Measure{m}}
	var out bytes.Buffer
	r.print(&out)
	for _, want := range []string{"2 cores", "PostgreSQL 15.1, fsync=on", "| 91,234 events/s |", "| 28,500 events/s |", "3.20 (3.20–3.20)", "at least 2.5 times the reference: met |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	name := filepath.Join(t.TempDir(), "report.json")
	if err := r.save(name); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("saved and read again: got %+v, %v, want %+v", back, err, r)
	}
}

func TestAMeasureThatStandsAloneHasItsRangeBesideIt(t *testing.T) {
	t.Parallel()
	m := alone(Measure{Name: "takeover", Unit: "s", Better: lower}, []float64{0.4, 0.25, 12})
	m.aim("below 1 s", true)
	got := strings.Join(m.cells(), " | ")
	if want := "takeover | 0.40 s (0.25–12.0) |  |  |  | below 1 s: met"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	text, err := json.Marshal(m)
	if err != nil || strings.Contains(string(text), "ratio") || strings.Contains(string(text), "other") {
		t.Errorf("got %s, %v, want neither another figure nor a ratio", text, err)
	}
}

func TestPeakIsReadFromTheStatusOfAProcess(t *testing.T) {
	t.Parallel()
	if got := peakOf("Name:\toutbox\nVmPeak:\t 2000000 kB\nVmHWM:\t   50000 kB\nVmRSS:\t 100 kB\n"); got != 51.2 {
		t.Errorf("got %v, want 51.2", got)
	}
	if got := peakOf("Name:\toutbox\nState:\tZ (zombie)\n"); got != 0 {
		t.Errorf("of an ended process: got %v, want 0", got)
	}
}
