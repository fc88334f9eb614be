package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the result of one run of the program.
type Report struct {
	Began    time.Time `json:"began"`
	Took     string    `json:"took"`
	Settings string    `json:"settings"`
	Machine  Machine   `json:"machine"`
	Measures []Measure `json:"measures"`
}

// print writes the table for people, which is one for Markdown as well.
func (r Report) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s\n%s; took %s\n\n", r.Machine, r.Settings, r.Took)
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	line := func(cells ...string) { fmt.Fprintf(w, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	line("measure", "relay", "against", "its figure", "times better (range)", "target")
	line("---", "---", "---", "---", "---", "---")
	for _, m := range r.Measures {
		line(m.cells()...)
	}
	w.Flush()
}

// cells are a row of the table. A measure that stands alone has its range beside the figure.
func (m Measure) cells() []string {
	ours := number(m.Ours.Median) + " " + m.Unit
	if m.Against == "" {
		low, high := slices.Min(m.Ours.Values), slices.Max(m.Ours.Values)
		return []string{m.Name, fmt.Sprintf("%s (%s–%s)", ours, number(low), number(high)), "", "", "", m.target()}
	}
	return []string{m.Name, ours, m.Against, number(m.Other.Median) + " " + m.Unit,
		fmt.Sprintf("%.2f (%.2f–%.2f)", m.Ratio.Median, m.Ratio.Min, m.Ratio.Max), m.target()}
}

func (m Measure) target() string {
	switch {
	case m.Target == "":
		return ""
	case m.Met:
		return m.Target + ": met"
	}
	return m.Target + ": missed"
}

// number shows very small values with two decimals, small ones with one, and large ones with separators.
func number(v float64) string {
	if v < 10 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	if v < 100 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func (r Report) save(name string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := os.WriteFile(name, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
