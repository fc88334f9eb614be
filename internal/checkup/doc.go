// Package checkup looks at a database for what weakens a guarantee or slows a relay down, and says what mends it. Package doctor reports it. It changes nothing, and
// a relay does without it.
package checkup
