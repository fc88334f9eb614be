// Package cli is the command line, one file for each command, and the place where the parts of the product are wired together.
package cli
