package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// The width of a line, in characters: of a terminal its own, but no less than narrow, for then nothing of a row would be left; of anything else usual.
const (
	narrow = 80
	usual  = 120
)

func (a *app) width() (columns int, terminal bool) {
	if f, ok := a.stdout.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return max(columns, narrow), true
		}
	}
	return usual, false
}

// elastic is a column that may be cut, to no less than least characters; one of names on a terminal only.
type elastic struct {
	column, least int
	name          bool
}

func text(column, least int) elastic { return elastic{column: column, least: least} }

func name(column, least int) elastic { return elastic{column: column, least: least, name: true} }

// gap is what stands between two columns.
const gap = 2

// fitted writes a table of which each row is one line of the terminal: columns that may be cut are, in the given order, each only where cutting those before it was not
// enough. What is no terminal gets names whole, for somebody may look for one. Cells are printable texts, whole. With show.full nothing is cut.
func (a *app) fitted(show shown, head []string, rows [][]string, cut ...elastic) error {
	if !show.full {
		width, terminal := a.width()
		if !terminal {
			cut = slices.DeleteFunc(cut, func(c elastic) bool { return c.name })
		}
		most := fit(width, head, rows, cut)
		for _, row := range rows {
			for i := range row {
				row[i] = shortened(row[i], most[i])
			}
		}
	}
	return a.table(strings.Join(head, "\t"), func(w io.Writer) {
		for _, row := range rows {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
	})
}

// fit returns how wide each column may be.
func fit(width int, head []string, rows [][]string, cut []elastic) []int {
	most, over := make([]int, len(head)), gap*(len(head)-1)-width
	for i := range head {
		most[i] = utf8.RuneCountInString(head[i])
		for _, row := range rows {
			most[i] = max(most[i], utf8.RuneCountInString(row[i]))
		}
		over += most[i]
	}
	for _, c := range cut {
		give := max(0, min(over, most[c.column]-c.least))
		most[c.column], over = most[c.column]-give, over-give
	}
	return most
}

// shortened is a text in so many characters, cut behind a word where there is one in its second half: the beginning of an id would be taken for another id.
func shortened(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	// Two are for the blank and the mark.
	for end := most - 2; end > most/2; end-- {
		if runes[end] == ' ' {
			return strings.TrimRight(string(runes[:end]), " ") + " …"
		}
	}
	return string(runes[:max(0, most-1)]) + "…"
}
