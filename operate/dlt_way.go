package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// way decides where letters go.
type way struct {
	redrive Redrive
	kafka   LetterTopics
	// targets are the topics that were looked at, with why nothing can be sent there.
	targets map[string]error
}

func newWay(r Redrive, k LetterTopics) *way { return &way{r, k, map[string]error{}} }

// sortedLetters are a page of letters by what becomes of them.
type sortedLetters struct {
	out      []Resent
	redriven int64
	refused  textTally
}

// old is how many of those to be sent were first written before a time.
func (s *sortedLetters) old(before time.Time) (n int64) {
	for _, l := range s.out {
		at := l.OriginalAt
		if at.IsZero() {
			at = l.At
		}
		if at.Before(before) {
			n++
		}
	}
	return n
}

// sort finds out what becomes of each letter of a page.
func (w *way) sort(ctx context.Context, keeper LetterKeeper, page []*LetterRecord) (sortedLetters, error) {
	s := sortedLetters{refused: textTally{}}
	redriven := map[LetterRef]Redriven{}
	var err error
	if !w.redrive.Again && len(page) > 0 {
		if redriven, err = keeper.RedrivenOf(ctx, page); err != nil {
			return s, err
		}
	}
	if err := w.look(ctx, page); err != nil {
		return s, err
	}
	for _, l := range page {
		if _, is := redriven[l.LetterRef]; is {
			s.redriven++
			continue
		}
		out, why := w.of(l)
		if why != "" {
			s.refused.add(why, 1)
			continue
		}
		s.out = append(s.out, out)
	}
	return s, nil
}

// look asks Kafka for the topics that it was not asked for yet.
func (w *way) look(ctx context.Context, page []*LetterRecord) error {
	unknown := map[string]struct{}{}
	for _, l := range page {
		to := w.redrive.To
		if to == "" && l.Original != nil {
			to = l.Original.Topic
		}
		if _, known := w.targets[to]; !known && to != "" {
			unknown[to] = struct{}{}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	found, err := w.kafka.Targets(ctx, slices.Sorted(maps.Keys(unknown)))
	if err != nil {
		return err
	}
	maps.Copy(w.targets, found)
	return nil
}

// noTarget says why nothing is to be sent to a topic, whoever names it; "" where nothing speaks against it.
func (r Redrive) noTarget(to string) string {
	switch {
	case strings.HasPrefix(to, "__"):
		return fmt.Sprintf("%s is called like a topic of Kafka's own: name another one with --to", to)
	case namedAsLetters(to) && !r.Force:
		return fmt.Sprintf("%s is a dead-letter topic: nobody handles what is sent there; --force sends it all the same", to)
	}
	return ""
}

// of says where a letter goes, or why it cannot.
func (w *way) of(l *LetterRecord) (out Resent, why string) {
	out = Resent{LetterRecord: l, To: w.redrive.To, Into: -1}
	switch {
	case l.Form == LetterOfRelay:
		return out, "the relay could not publish them: outbox events restore puts such events back"
	case out.To == "" && l.Original == nil:
		return out, "no header says from which topic they are: name one with --to"
	case out.To == "":
		// A record goes back to where it was, whatever had chosen its partition.
		out.To, out.Into = l.Original.Topic, l.Original.Partition
	}
	if out.To == l.Topic {
		return out, fmt.Sprintf("they are from %s itself: name another topic with --to", l.Topic)
	}
	if why := w.redrive.noTarget(out.To); why != "" {
		return out, why
	}
	if err := w.targets[out.To]; err != nil {
		return out, err.Error()
	}
	return out, ""
}
