// Package engine is what the engines of packages relay and competing do alike, and that must not come to differ: how they go from term to term, when a relay has to be
// silent, what it reports of Kafka's silence, what it is called, and how it speaks of a start that fails.
package engine
