package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox"
	"github.com/outbox-relay/outbox/relay"
)

// Inspector asks a cluster what a relay depends on, by clients of its own. It makes and changes nothing.
type Inspector struct {
	cfg    Config
	client *kgo.Client
	admin  *kadm.Client
}

// NewInspector checks the configuration and connects to nothing yet.
func NewInspector(c Config) (*Inspector, error) {
	c.CreateTopics = nil
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(clientOptions(c, newNetwork(c))...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	return &Inspector{cfg: c, client: client, admin: kadm.NewClient(client)}, nil
}

// Close ends the connections.
func (i *Inspector) Close() { i.client.Close() }

// BrokerAnswer is what came of asking one address.
type BrokerAnswer struct {
	// Address is host:port.
	Address string
	// Advertised tells that the address is the cluster's own word for one of its brokers, and not one that was configured.
	Advertised bool
	// Cluster is the id of the cluster that has answered; "" when it tells none.
	Cluster string
	// Err is why there is no answer: nobody there, no TLS, a refused password; nil when there is one.
	Err error

	brokers []string
}

// Brokers asks every address that is configured on its own, and then those by which the cluster calls its brokers: clients have to reach these as well. The
// configured ones come first.
func (i *Inspector) Brokers(ctx context.Context) []BrokerAnswer {
	answers := i.askAll(ctx, i.cfg.Brokers, false)
	var advertised []string
	for _, a := range answers {
		for _, address := range a.brokers {
			if !slices.Contains(i.cfg.Brokers, address) && !slices.Contains(advertised, address) {
				advertised = append(advertised, address)
			}
		}
	}
	slices.Sort(advertised)
	return append(answers, i.askAll(ctx, advertised, true)...)
}

func (i *Inspector) askAll(ctx context.Context, addresses []string, advertised bool) []BrokerAnswer {
	answers := make([]BrokerAnswer, len(addresses))
	var wg sync.WaitGroup
	for n, address := range addresses {
		wg.Go(func() {
			answers[n] = i.ask(ctx, address)
			answers[n].Advertised = advertised
		})
	}
	wg.Wait()
	return answers
}

// ask asks one address, and no other broker that the answer names.
func (i *Inspector) ask(ctx context.Context, address string) BrokerAnswer {
	a := BrokerAnswer{Address: address}
	c := i.cfg
	c.Brokers = []string{address}
	client, err := kgo.NewClient(clientOptions(c, newNetwork(c))...)
	if err != nil {
		a.Err = err
		return a
	}
	defer client.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		if cause := ctx.Err(); cause != nil {
			err = errors.New("no answer in time")
		}
		a.Err = c.outageError("reach kafka at", address, err)
		return a
	}
	found := resp.(*kmsg.MetadataResponse)
	if found.ClusterID != nil {
		a.Cluster = *found.ClusterID
	}
	for _, b := range found.Brokers {
		a.brokers = append(a.brokers, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	return a
}

// TopicState is what Kafka says of one topic, for a program that looks for faults.
type TopicState struct {
	Topic
	// Replicas is the smallest number of replicas among its partitions, and Leaderless how many partitions have no leader.
	Replicas, Leaderless int
	// Settings are its configuration by the names of Kafka, such as min.insync.replicas; nil when it may not be read.
	Settings map[string]string
}

// Number is a setting that is a number.
func (t TopicState) Number(name string) (n int64, known bool) {
	n, err := strconv.ParseInt(t.Settings[name], 10, 64)
	return n, err == nil
}

// Topics looks at topics by name; none of them is made. A name that no topic can have has its Err.
func (i *Inspector) Topics(ctx context.Context, names []string) (map[string]TopicState, error) {
	states := map[string]TopicState{}
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, name := range names {
		states[name] = TopicState{Topic: Topic{Name: name, Err: topicError(name, kerr.UnknownTopicOrPartition)}}
		if outbox.CheckTopic(name) != nil {
			states[name] = TopicState{Topic: Topic{Name: name, Err: topicError(name, kerr.InvalidTopicException)}}
			continue
		}
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	if len(req.Topics) == 0 {
		return states, nil
	}
	resp, err := req.RequestWith(ctx, i.client)
	if err != nil {
		return nil, fmt.Errorf("ask for topics: %w", i.cfg.sent.discreet(err))
	}
	for n := range resp.Topics {
		if t := &resp.Topics[n]; t.Topic != nil {
			states[*t.Topic] = newTopicState(t)
		}
	}
	return states, i.settings(ctx, states)
}

func newTopicState(t *kmsg.MetadataResponseTopic) TopicState {
	s := TopicState{Topic: newTopic(t)}
	for n, p := range t.Partitions {
		if n == 0 || len(p.Replicas) < s.Replicas {
			s.Replicas = len(p.Replicas)
		}
		if p.Leader < 0 {
			s.Leaderless++
		}
	}
	return s
}

// settings fills in the configuration of the topics that are there.
func (i *Inspector) settings(ctx context.Context, states map[string]TopicState) error {
	var names []string
	for name, s := range states {
		if s.Err == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	found, err := i.admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return fmt.Errorf("ask for topics' settings: %w", i.cfg.sent.discreet(err))
	}
	for _, r := range found {
		s, asked := states[r.Name]
		if !asked || r.Err != nil {
			continue
		}
		s.Settings = map[string]string{}
		for _, c := range r.Configs {
			s.Settings[c.Key] = c.MaybeValue()
		}
		if limit, known := s.Number(maxMessageBytesName); known {
			s.MaxMessageBytes = int(limit)
		}
		states[r.Name] = s
	}
	return nil
}

// MayProduce asks for an identity of an idempotent producer, as every relay does when it starts; the error says why the cluster gives none.
func (i *Inspector) MayProduce(ctx context.Context) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp, err := req.RequestWith(ctx, i.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("ask for a producer id: %w", i.cfg.sent.discreet(err))
	}
	return nil
}

// IsForbidden tells that the cluster refuses something to the user.
func IsForbidden(err error) bool {
	return errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.TopicAuthorizationFailed)
}

// Quota is a limit on what a producer may send.
type Quota struct {
	// Of names whom it is for: {user=relay, client-id=outbox-relay}.
	Of string
	// BytesPerSecond is the limit of each broker.
	BytesPerSecond float64
}

// Quotas returns the limits on producing that can be this user's and client's: those by name, and the defaults. The error is one of rights where
// DESCRIBE_CONFIGS on the cluster is lacking.
func (i *Inspector) Quotas(ctx context.Context) (quotas []Quota, err error) {
	for _, kind := range []string{"user", "client-id"} {
		found, err := i.admin.DescribeClientQuotas(ctx, false, []kadm.DescribeClientQuotaComponent{{Type: kind, MatchType: kmsg.QuotasMatchTypeAny}})
		if err != nil {
			return nil, fmt.Errorf("ask for quotas: %w", i.cfg.sent.discreet(err))
		}
		for _, q := range found {
			for _, v := range q.Values {
				limit := Quota{q.Entity.String(), v.Value}
				if v.Key == "producer_byte_rate" && i.mine(q.Entity) && !slices.Contains(quotas, limit) {
					quotas = append(quotas, limit)
				}
			}
		}
	}
	return quotas, nil
}

func (i *Inspector) mine(entity kadm.ClientQuotaEntity) bool {
	user := strings.TrimPrefix(i.User(), "User:")
	for _, c := range entity {
		if c.Name != nil && (c.Type == "user" && *c.Name != user || c.Type == "client-id" && *c.Name != i.cfg.ClientID || c.Type == "ip") {
			return false
		}
	}
	return true
}

// User is the name by which the brokers know the relay, as ACLs write it: of SASL, else of the client certificate, else User:ANONYMOUS. Of OAUTHBEARER with a client id it is that
// one, which the token may say otherwise, and of other tokens and of AWS it is not known here.
func (i *Inspector) User() string {
	switch {
	case i.cfg.SASL != nil:
		return "User:" + cmp.Or(i.cfg.SASL.user(), "NAME")
	case i.cfg.tlsFiles != nil && i.cfg.tlsFiles.subject() != "":
		return "User:" + i.cfg.tlsFiles.subject()
	}
	return anonymous
}

const anonymous = "User:ANONYMOUS"

// IsAnonymous tells that the brokers do not know who the user is.
func (i *Inspector) IsAnonymous() bool { return i.User() == anonymous }

// Bootstrap is the list of brokers for the tools of Kafka.
func (i *Inspector) Bootstrap() string { return i.cfg.brokerList() }

// IsMissing tells that the topic is not there.
func (t TopicState) IsMissing() bool { return t.Err != nil && isMissing(t.Err) }

// IsForbidden tells that the topic may not be written to, or not seen.
func (t TopicState) IsForbidden() bool {
	var p *relay.PublishError
	return errors.As(t.Err, &p) && p.Code == kerr.TopicAuthorizationFailed.Message
}
