package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox/internal/advice"
	"github.com/outbox-relay/outbox/internal/checkup"
	"github.com/outbox-relay/outbox/kafka"
)

// Kafka is the cluster that the events go to.
type Kafka struct {
	// Inspector reaches it.
	Inspector *kafka.Inspector
	// Topics are those that must be there, whatever waits.
	Topics []string
	// Letters are dead-letter topics. {topic} in a name stands for each topic that is looked at.
	Letters []string
	// CreatesTopics tells that the relay makes topics that are missing.
	CreatesTopics bool
}

// waitingWindow is how many of the newest unpublished events are looked at for their topics and sizes.
const waitingWindow = 2000

// topicsSubject is true where nothing is wrong with a topic.
const topicsSubject = "the topics are there, take what waits for them, and lose nothing"

// kafka looks at the cluster, as far as it answers.
func (r *Report) kafka(ctx context.Context, cfg Config, without string) {
	if !r.brokers(ctx, cfg) {
		r.acls(cfg.Kafka, checkup.Waiting{})
		r.NotLookedAt = append(r.NotLookedAt, Unseen{What: topicsSubject, Why: "no broker answers", Vital: true})
		return
	}
	r.limited(ctx, cfg, Unseen{What: "the cluster lets the relay produce", Vital: true}, func(ctx context.Context) ([]Finding, error) { return mayProduce(ctx, cfg.Kafka) })
	w := r.waiting(ctx, cfg, without)
	r.acls(cfg.Kafka, w)
	r.limited(ctx, cfg, Unseen{What: topicsSubject, Vital: true}, func(ctx context.Context) ([]Finding, error) { return topics(ctx, cfg.Kafka, w) })
	r.limited(ctx, cfg, Unseen{What: "no quota slows the relay down"}, func(ctx context.Context) ([]Finding, error) { return quotas(ctx, cfg.Kafka) })
}

// limited makes a look within the limit. What fails is said, as not seen.
func (r *Report) limited(ctx context.Context, cfg Config, not Unseen, look func(context.Context) ([]Finding, error)) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Limit)
	defer cancel()
	found, err := look(ctx)
	if err != nil {
		not.Why = unseenFor(err, cfg.Limit)
		r.NotLookedAt = append(r.NotLookedAt, not)
		return
	}
	r.add(not.What, found)
}

// brokers tells whether any of those that are configured answers.
func (r *Report) brokers(ctx context.Context, cfg Config) bool {
	ctx, cancel := context.WithTimeout(ctx, cfg.Limit)
	defer cancel()
	answers := cfg.Kafka.Inspector.Brokers(ctx)
	r.add("every broker answers", brokerFindings(answers))
	return slices.ContainsFunc(answers, func(a kafka.BrokerAnswer) bool { return a.Err == nil })
}

func brokerFindings(answers []kafka.BrokerAnswer) (found []Finding) {
	var silent, clusters []string
	answered := false
	for _, a := range answers {
		switch {
		case a.Err == nil:
			answered = true
			if a.Cluster != "" && !slices.Contains(clusters, a.Cluster) {
				clusters = append(clusters, a.Cluster)
			}
		case a.Advertised:
			found = append(found, Finding{
				Code: "broker-advertised-unreachable", Severity: Error, Text: fmt.Sprintf("the cluster calls one of its brokers %s, and it does not answer there: %v", a.Address, a.Err),
				Why:  "clients have to reach each broker by the name that the cluster gives: what this one leads cannot be published",
				Mend: "start the broker, or correct its advertised.listeners, or make that name known here",
			})
		default:
			silent = append(silent, a.Address)
			found = append(found, Finding{
				Code: "broker-unreachable", Severity: Warning, Text: fmt.Sprintf("the broker %s does not answer: %v", a.Address, a.Err),
				Why:  "a relay that starts may have to wait for it in vain, and there is one less to begin with",
				Mend: "start it, or leave it out of --brokers",
			})
		}
	}
	if !answered {
		var texts []string
		for _, f := range found {
			texts = append(texts, f.Text)
		}
		return []Finding{{
			Code: "brokers-unreachable", Severity: Error, Text: strings.Join(texts, "\n"), Why: "nothing can be published",
			Mend: "correct --brokers, TLS and SASL, or look at the network and at the brokers: " + strings.Join(silent, ", "),
		}}
	}
	if len(clusters) > 1 {
		found = append(found, Finding{
			Code: "brokers-of-two-clusters", Severity: Error, Text: "the brokers belong to different clusters: " + strings.Join(clusters, ", "),
			Why: "which of them gets the events depends on who answers first", Mend: "name the brokers of one cluster in --brokers",
		})
	}
	return found
}

func mayProduce(ctx context.Context, k *Kafka) ([]Finding, error) {
	err := k.Inspector.MayProduce(ctx)
	if err == nil || !kafka.IsForbidden(err) {
		return nil, err
	}
	return []Finding{{
		Code: "produce-forbidden", Severity: Error, Text: fmt.Sprintf("%s may not be an idempotent producer: it has WRITE on no topic", k.Inspector.User()),
		Why:  "the relay gets no producer id, and nothing can be published",
		Mend: "allow it Write on its topics, by the rules that are told at the end; brokers before 2.8 want IdempotentWrite on the cluster as well",
	}}, nil
}

// acls names the rules that a relay needs, whether there are others or not.
func (r *Report) acls(k *Kafka, w checkup.Waiting) {
	if k.Inspector.IsAnonymous() {
		return
	}
	names := append(topicsOf(w), k.Topics...)
	for _, rule := range kafka.RelayACLs(append(names, lettersOf(k, names, w)...), k.CreatesTopics) {
		r.ACLs = append(r.ACLs, rule.Command(k.Inspector.Bootstrap(), k.Inspector.User()))
	}
}

func acl(k *Kafka, what string) string {
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal %s %s", advice.Word(k.Inspector.Bootstrap()), advice.Word(k.Inspector.User()), what)
}

// waiting reads what waits, and says how far it has looked.
func (r *Report) waiting(ctx context.Context, cfg Config, without string) (w checkup.Waiting) {
	const what = "the topics of all unpublished events"
	err := errors.New(without)
	if without == "" {
		limited, cancel := context.WithTimeout(ctx, cfg.Limit)
		defer cancel()
		w, err = checkup.ReadWaiting(limited, cfg.Pool, cfg.Table, waitingWindow)
	}
	switch {
	case err != nil:
		r.NotLookedAt = append(r.NotLookedAt, Unseen{What: what, Why: unseenFor(err, cfg.Limit)})
	case w.More:
		r.NotLookedAt = append(r.NotLookedAt, Unseen{What: what, Why: fmt.Sprintf("there are many: only the newest %d were looked at", w.Events)})
	}
	return w
}

func quotas(ctx context.Context, k *Kafka) (found []Finding, err error) {
	limits, err := k.Inspector.Quotas(ctx)
	for _, q := range limits {
		found = append(found, Finding{
			Code: "producer-quota", Severity: Warning, Text: fmt.Sprintf("the quota of %s lets a producer send %.0f bytes a second to each broker", q.Of, q.BytesPerSecond),
			Why:  "beyond that the brokers let the relay wait, which looks like a slow cluster",
			Mend: "raise it if the relay needs more: kafka-configs.sh --bootstrap-server " + advice.Word(k.Inspector.Bootstrap()) + " --alter --add-config producer_byte_rate=…",
		})
	}
	return found, err
}
