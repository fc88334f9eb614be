package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/checkup"
	"github.com/outbox-relay/outbox/kafka"
)

// shownTopics is how many topics of one finding are named.
const shownTopics = 20

// leastRetention is how long dead letters should be kept, in milliseconds: a week.
const leastRetention = 7 * 24 * 3600 * 1000

// topicFault is what is wrong with one topic. Those of one code become one finding.
type topicFault struct {
	Finding
	topic string
	// care is what the mend costs or breaks where it is done without a look; "" when nothing. It stands before the commands, once.
	care string
}

// topics looks at the topics that events wait for, at those that must be there, and at dead-letter topics.
func topics(ctx context.Context, k *Kafka, w checkup.Waiting) ([]Finding, error) {
	waits := map[string]checkup.WaitingTopic{}
	for _, t := range w.Topics {
		waits[t.Topic] = t
	}
	names := append(topicsOf(w), k.Topics...)
	letters := lettersOf(k, names, w)
	states, err := k.Inspector.Topics(ctx, slices.Compact(slices.Sorted(slices.Values(append(names, letters...)))))
	if err != nil {
		return nil, err
	}
	var faults []topicFault
	for _, name := range slices.Sorted(maps.Keys(states)) {
		l := topicLook{Kafka: k, TopicState: states[name], waits: waits[name], letters: slices.Contains(letters, name)}
		faults = append(faults, l.faults()...)
	}
	return joined(faults), nil
}

// topicsOf are those that events wait for.
func topicsOf(w checkup.Waiting) (names []string) {
	for _, t := range w.Topics {
		names = append(names, t.Topic)
	}
	return names
}

// lettersOf are the dead-letter topics of the policies and those that dead events went to.
func lettersOf(k *Kafka, names []string, w checkup.Waiting) []string {
	letters := slices.Clone(w.Letters)
	for _, pattern := range k.Letters {
		if !strings.Contains(pattern, "{topic}") {
			letters = append(letters, pattern)
			continue
		}
		for _, name := range names {
			letters = append(letters, strings.ReplaceAll(pattern, "{topic}", name))
		}
	}
	return letters
}

// topicLook is one topic with what is wanted of it.
type topicLook struct {
	*Kafka
	kafka.TopicState
	waits   checkup.WaitingTopic
	letters bool
}

func (l topicLook) faults() []topicFault {
	switch {
	case l.IsMissing() && l.CreatesTopics:
		return nil
	case l.IsMissing():
		return l.careful("add --partitions N, as many as its consumers will need: more of them later send keys to other partitions, and their order is lost there", Finding{
			Code: "topic-missing", Severity: Error, Text: "a topic is missing", Why: "its events wait until it is there",
			Mend: fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --create --topic %s", advice.Word(l.Inspector.Bootstrap()), advice.Word(l.Name)),
		})
	case l.IsForbidden():
		return l.fault(Finding{
			Code: "topic-forbidden", Severity: Error, Text: l.Inspector.User() + " may not write to a topic, or not see it", Why: "its events wait until it may",
			Mend: acl(l.Kafka, "--operation Write --operation Describe --operation DescribeConfigs --topic "+advice.Word(l.Name)),
		})
	case l.Err != nil:
		return l.fault(Finding{Code: "topic-unusable", Severity: Error, Text: "nothing can be published to a topic", Why: l.Err.Error()})
	}
	found := slices.Concat(l.leaders(), l.replication(), l.size())
	if l.Settings == nil {
		return append(found, l.fault(Finding{
			Code: "topic-settings-hidden", Severity: Warning, Text: l.Inspector.User() + " may not read the settings of a topic", Why: "the relay does not know the topic's max.message.bytes, and sends large events one by one",
			Mend: acl(l.Kafka, "--operation DescribeConfigs --topic "+advice.Word(l.Name)),
		})...)
	}
	return append(found, l.keeping()...)
}

func (l topicLook) fault(f Finding) []topicFault { return l.careful("", f) }

func (l topicLook) careful(care string, f Finding) []topicFault {
	return []topicFault{{f, l.Name, care}}
}

// set is the command that changes a setting of the topic.
func (l topicLook) set(name, value string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s=%s", advice.Word(l.Inspector.Bootstrap()), advice.Word(l.Name), name, value)
}

func (l topicLook) leaders() []topicFault {
	if l.Leaderless == 0 {
		return nil
	}
	return l.fault(Finding{
		Code: "topic-without-leader", Severity: Error, Text: "partitions of a topic have no leader", Why: "what goes to them waits",
		Mend: "start the brokers that have their replicas: kafka-topics.sh --describe --unavailable-partitions names them",
	})
}

func (l topicLook) replication() []topicFault {
	least, known := l.Number("min.insync.replicas")
	switch {
	case known && least > int64(l.Replicas):
		return l.careful("more replicas mend it, too, and events are as safe as it was meant", Finding{
			Code: "topic-min-insync-impossible", Severity: Error, Text: "min.insync.replicas is above the number of replicas", Why: "every produce with acks=all is refused",
			Mend: l.set("min.insync.replicas", fmt.Sprint(max(1, l.Replicas-1))),
		})
	case l.Replicas < 3:
		return l.fault(Finding{
			Code: "topic-replication-low", Severity: Warning, Text: "a topic has fewer than 3 replicas", Why: "with one broker, events are lost or wait: what Kafka has acknowledged is as safe as its replicas",
			Mend: "give it 3 replicas with kafka-reassign-partitions.sh, where the cluster has as many brokers",
		})
	case known && least < 2:
		return l.careful("only while no replica is behind, or nothing can be published until it is back: kafka-topics.sh --describe --under-replicated-partitions names those that are", Finding{
			Code: "topic-min-insync-low", Severity: Warning, Text: "min.insync.replicas is 1", Why: "Kafka acknowledges what only one broker has: if that one is lost, so are events that are settled",
			Mend: l.set("min.insync.replicas", "2"),
		})
	case known && least == int64(l.Replicas):
		return l.careful("Kafka then acknowledges what one replica less has; one more replica mends it, too", Finding{
			Code: "topic-min-insync-high", Severity: Warning, Text: "min.insync.replicas is the number of replicas", Why: "with any one broker away nothing can be published to the topic",
			Mend: l.set("min.insync.replicas", fmt.Sprint(l.Replicas-1)),
		})
	}
	return nil
}

// size compares the largest record that waits with what the topic takes.
func (l topicLook) size() []topicFault {
	const batch = 100
	need := l.waits.Largest + batch
	if l.MaxMessageBytes == 0 || need <= int64(l.MaxMessageBytes) {
		return nil
	}
	const step = 64 << 10
	return l.careful("the consumers and mirrors of the topic have to take records of that size, too", Finding{
		Code: "topic-limit-small", Severity: Error, Text: fmt.Sprintf("a record of about %d bytes waits (event %d), and max.message.bytes is %d", need, l.waits.ID, l.MaxMessageBytes),
		Why: "Kafka does not take it: its key stops, or what --on-failure says", Mend: l.set("max.message.bytes", fmt.Sprint((need/step+1)*step)),
	})
}

// keeping looks at what becomes of records that Kafka has.
func (l topicLook) keeping() (found []topicFault) {
	if l.Settings["unclean.leader.election.enable"] == "true" {
		found = append(found, l.careful("a partition of which only replicas that lag are alive has no leader then until another one is back", Finding{
			Code: "topic-unclean-election", Severity: Warning, Text: "unclean.leader.election.enable is on", Why: "a broker that lags may lead, and what it lacks is lost, though its events are settled",
			Mend: l.set("unclean.leader.election.enable", "false"),
		})...)
	}
	if slices.Contains(strings.Split(l.Settings["cleanup.policy"], ","), "compact") {
		found = append(found, l.fault(Finding{
			Code: "topic-compacted", Severity: Warning, Text: "cleanup.policy has compact", Why: "Kafka keeps the newest event of each key only: consumers that come late miss the others; a record without a key is refused",
			// What a topic of states is for is lost by the policy delete, and what one of events is for by compact: no command fits both.
			Mend: "where it is for events: cleanup.policy=delete, with a retention.ms that is long enough, for with the default of 7 days what is older is gone at once. " +
				"Where it is for states on purpose, so that the newest event of each key stays for ever, leave it",
		})...)
	}
	if keeps, known := l.Number("retention.ms"); l.letters && known && keeps >= 0 && keeps < leastRetention {
		found = append(found, l.careful("they take room on the brokers' disks for that long", Finding{
			Code: "letters-kept-briefly", Severity: Warning, Text: "a dead-letter topic keeps its records for less than a week", Why: "dead letters are gone before somebody has looked at them",
			Mend: l.set("retention.ms", fmt.Sprint(leastRetention)),
		})...)
	}
	return found
}

// joined makes one finding of the faults of one code, with the topics behind what is wrong, and one line of what mends it for each.
func joined(faults []topicFault) (found []Finding) {
	names, texts, mends, cares := map[string][]string{}, map[string][]string{}, map[string][]string{}, map[string]string{}
	for _, f := range faults {
		if len(names[f.Code]) == 0 {
			found = append(found, f.Finding)
		}
		names[f.Code] = append(names[f.Code], f.topic)
		cares[f.Code] = f.care
		texts[f.Code] = append(texts[f.Code], f.Text+": "+f.topic)
		if f.Mend != "" && !slices.Contains(mends[f.Code], f.Mend) {
			mends[f.Code] = append(mends[f.Code], f.Mend)
		}
	}
	for i := range found {
		f := &found[i]
		all := names[f.Code]
		f.Text += ": " + strings.Join(all[:min(len(all), shownTopics)], ", ")
		if f.Code == "topic-limit-small" {
			// Each has a size of its own.
			f.Text = strings.Join(texts[f.Code][:min(len(all), shownTopics)], "\n")
		}
		if more := len(all) - shownTopics; more > 0 {
			f.Text += fmt.Sprintf(", and %d more", more)
		}
		f.Mend = strings.Join(mends[f.Code][:min(len(mends[f.Code]), shownTopics)], "\n")
		if care := cares[f.Code]; care != "" && f.Mend != "" {
			f.Mend = "# " + care + "\n" + f.Mend
		}
	}
	return found
}
