package kafka

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// leftTimeout is how long a start looks for retry topics that nobody reads.
const leftTimeout = 5 * time.Second

// retryName is what stands behind a topic in the name of one of its retry topics.
var retryName = regexp.MustCompile(`^-retry-[0-9]+$`)

// warnOfLeft names retry topics of the consumer's topics that it does not read and that hold records which its group has not handled: after a delay was taken out of the configuration
// nobody tries those again. What cannot be found out is not said.
func (c *Consumer) warnOfLeft(ctx context.Context, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, leftTimeout)
	defer cancel()
	admin := kadm.NewClient(client)
	there, err := admin.ListTopics(ctx)
	if err != nil {
		return
	}
	unread := slices.DeleteFunc(there.Names(), func(name string) bool { return !c.isRetryOf(name) || slices.Contains(c.cfg.retries, name) })
	if len(unread) == 0 {
		return
	}
	first, err := admin.ListStartOffsets(ctx, unread...)
	if err != nil {
		return
	}
	next, err := admin.ListEndOffsets(ctx, unread...)
	if err != nil {
		return
	}
	handled, err := admin.FetchOffsets(ctx, c.cfg.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // nobody has committed yet
		return
	}
	for _, name := range unread {
		left := int64(0)
		for partition, end := range next[name] {
			from := first[name][partition].Offset
			if at, ok := handled.Lookup(name, partition); ok {
				from = max(from, at.At)
			}
			left += max(0, end.Offset-from)
		}
		if left > 0 {
			c.cfg.Logger.Warn("a retry topic that this consumer does not read holds records that its group has not handled; those of this group are tried again only when its delay is in Retry.Topics again",
				"topic", name, "records", left, "group", c.cfg.Group)
		}
	}
}

// isRetryOf tells whether a topic is called like a retry topic of one of the consumer's.
func (c *Consumer) isRetryOf(name string) bool {
	return slices.ContainsFunc(c.cfg.Topics, func(topic string) bool {
		rest, is := strings.CutPrefix(name, topic)
		return is && retryName.MatchString(rest)
	})
}
