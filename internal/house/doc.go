// Package house holds the tests of the repository itself: which package may import which, what is documented, and what is nowhere
// written. A finding names the file and the rule; who thinks a rule wrong changes it here, in the same commit.
package house
