// Package vet pins the tools that look at the code: their many dependencies stay in a module of their own.
package vet
