package migrate

import "strings"

// gently runs statements that are done in a moment once they have their lock. Until then writers wait behind it, so it gives up soon.
func gently(statements ...string) string {
	return doBlock(`BEGIN
    -- The lock waits for open transactions, and writers wait behind it. If it is not had in time, nothing is changed: run it again.
    SET LOCAL lock_timeout = '3s';
    ` + strings.Join(statements, "\n    ") + "\nEND")
}

// carefully puts before a mend what it breaks or costs where somebody runs it without a look at writers, rows and size.
func (d Difference) carefully(mend string, warnings ...string) Difference {
	d.Careful = true
	for _, w := range warnings {
		d.Mend += comment("%s", w) + "\n"
	}
	d.Mend += mend
	return d
}

// rewrites warns of a statement that makes the whole table anew.
func (f *facts) rewrites() string {
	return "Writes the whole table anew" + f.about() + ", and nobody reads or writes it meanwhile."
}

// reads warns of a statement that goes through the whole table, and what nobody does meanwhile.
func (f *facts) reads(meanwhile string) string {
	return "Goes through the whole table" + f.about() + ", and " + meanwhile + " meanwhile."
}

// about is the table's size as the server knows it without a look at the files: none before the first VACUUM or ANALYZE.
func (f *facts) about() string {
	if f.size == "" {
		return ""
	}
	return ", about " + f.size
}
