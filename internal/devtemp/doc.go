// Package devtemp chooses where throw-away servers keep their data. A test's database is some 300 small files, and to make, to write and to remove them is
// most of what it costs: in memory it is a tenth of that on a disk.
package devtemp
