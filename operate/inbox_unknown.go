package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// namesSaid is how many names a message has at most.
const namesSaid = 10

// UnknownConsumer says in a sentence that no consumer of the name remembers events or failures in this database, and which ones do; "" where it does, or where that
// cannot be found out.
func (s *Service) UnknownConsumer(ctx context.Context, a Actor, name string) string {
	known, err := s.InboxConsumers(ctx, a)
	if err != nil || slices.ContainsFunc(known, func(c InboxConsumer) bool { return c.Name == name }) {
		return ""
	}
	text := fmt.Sprintf("no consumer %q remembers events in this database", name)
	var names []string
	for _, c := range known[:min(len(known), namesSaid)] {
		names = append(names, fmt.Sprintf("%q", c.Name))
	}
	switch more := len(known) - len(names); {
	case len(names) == 0:
		return text + ", nor does any other"
	case more > 0:
		return fmt.Sprintf("%s; those that do are %s, and %d more: outbox inbox list", text, strings.Join(names, ", "), more)
	}
	return text + "; those that do are " + strings.Join(names, ", ")
}
