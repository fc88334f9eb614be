package config

// Nearest returns the candidate that fewest edits make of the name; "" when that takes more than two, and more than a third of the letters that count: those after fixed ones, which
// all candidates have too.
func Nearest(name string, candidates []string, fixed int) string {
	best, fewest := "", max(3, (len(name)-fixed)/3+1)
	for _, c := range candidates {
		if d := distance(name, c); d < fewest {
			best, fewest = c, d
		}
	}
	return best
}

// distance counts the letters that have to be put in, left out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, changed)
		}
	}
	return row[len(b)]
}
