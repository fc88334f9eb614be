package postgres

// density is the share of wanted rows among those that a part of a read passes, as the last full read of the part has shown; zero when it passes
// none but wanted ones. The thinner they are spread, the more rows are passed at once.
type density float64

const (
	// maxScan is how many rows a part of a read passes at most beside the limit of the read.
	maxScan = 10_000
	// thin is the density of rows that may be anywhere.
	thin = 1.0 / maxScan
)

// rows is how many rows to pass for a limit of wanted ones.
func (d density) rows(limit int) int {
	if d <= 0 || d >= 1 {
		return limit
	}
	return max(limit, min(int(float64(limit)/float64(d)), maxScan))
}

// learn takes in what a full read has passed.
func (d *density) learn(rows, wanted int) {
	*d = density(max(float64(wanted), 0.25) / float64(rows))
}

// wanted counts the rows that came whole.
func wanted(rows []row) (n int) {
	for _, r := range rows {
		if r.event != nil {
			n++
		}
	}
	return n
}

// sieve says whether the pages of a walk are to leave out what parked keys have. To look up the key of each row costs a tenth of the relay's time; to carry rows over
// that nobody may publish costs more, when most are such. So a page now and then is sieved, and the others as long as half of it was to be left out.
type sieve struct {
	// open is how many more pages go unsieved.
	open int
}

// openPages is how many pages go unsieved after one of which little was left out.
const openPages = 15

func (v sieve) on() bool { return v.open == 0 }

// learn takes in what a full page has passed, of which usual is the density without parked keys.
func (v *sieve) learn(rows, wanted int, usual density) {
	switch {
	case v.open > 0:
		v.open--
	case float64(wanted) > float64(rows)*float64(usual)/2:
		v.open = openPages
	}
}

// density is that of a set of lanes, if keys are spread evenly.
func (s laneSet) density() density { return density(len(s.set)) / density(s.total) }
