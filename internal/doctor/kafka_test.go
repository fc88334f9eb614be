package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/pgtest"
	"github.com/outbox-relay/outbox/kafka"
)

// cluster is three brokers without Kafka's faults, and somebody who may do anything there.
type cluster struct {
	*kfake.Cluster
	admin *kadm.Client
	// sasl is the relay's user; nil means none.
	sasl *kafka.SASL
}

func newCluster(t *testing.T, opts ...kfake.Opt) *cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &cluster{Cluster: c, admin: adminOf(t, c)}
}

func adminOf(t *testing.T, c *kfake.Cluster, opts ...kgo.Opt) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// topic makes a topic that is as it should be, but for the settings that are given: pairs of name and value.
func (c *cluster) topic(t *testing.T, name string, replicas int16, settings ...string) {
	t.Helper()
	two := "2"
	all := map[string]*string{"min.insync.replicas": &two}
	for i := 0; i < len(settings); i += 2 {
		all[settings[i]] = &settings[i+1]
	}
	if _, err := c.admin.CreateTopic(t.Context(), 3, replicas, all, name); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) doctor(t *testing.T, db *pgtest.DB, k Kafka) Report {
	t.Helper()
	return examineKafka(t, db, k, kafka.Config{Brokers: c.ListenAddrs(), SASL: c.sasl})
}

func examineKafka(t *testing.T, db *pgtest.DB, k Kafka, cfg kafka.Config) Report {
	t.Helper()
	var err error
	if k.Inspector, err = kafka.NewInspector(cfg); err != nil {
		t.Fatal(err)
	}
	defer k.Inspector.Close()
	pool := poolOf(t, db.URL)
	defer pool.Close()
	r, err := Examine(t.Context(), Config{Pool: pool, Table: "public.outbox_event", Kafka: &k, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// waits writes an event of a topic with a payload of about so many bytes.
func waits(t *testing.T, db *pgtest.DB, topic string, bytes int) {
	t.Helper()
	db.Exec(t, `INSERT INTO outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
VALUES ('01890000-0000-7000-8000-000000000001', 'Order', '1', 'order.placed.v1', jsonb_build_object('x', repeat('x', $2)), $1, 'a')`, topic, bytes)
}

func TestNothingIsFoundInAClusterThatIsWell(t *testing.T) {
	t.Parallel()
	c, db := newCluster(t), pgtest.New(t)
	c.topic(t, "shop.order", 3)
	waits(t, db, "shop.order", 1000)
	r := c.doctor(t, db, Kafka{})
	if got := codes(r); len(got) > 0 || !r.Ready || !slices.Equal(r.LookedAt, []string{"database", "kafka"}) || len(r.NotLookedAt) > 0 || len(r.ACLs) > 0 {
		t.Errorf("the report is %+v", r)
	}
	for _, want := range []string{"every broker answers", "the cluster lets the relay produce", topicsSubject, "no quota slows the relay down"} {
		if !slices.Contains(r.Sound, want) {
			t.Errorf("%q is not said of %q", want, r.Sound)
		}
	}
}

// Each topic is broken in one way, which is found; what is printed for it is done by the same request that the tool makes, and then it is not found any more.
func TestWhatIsFoundOfATopicGoesAwayByWhatIsPrinted(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		replicas int16
		settings []string
		bytes    int
		letters  []string
	}{
		"topic-missing":               {},
		"topic-min-insync-low":        {replicas: 3, settings: []string{"min.insync.replicas", "1"}},
		"topic-min-insync-high":       {replicas: 3, settings: []string{"min.insync.replicas", "3"}},
		"topic-min-insync-impossible": {replicas: 2, settings: []string{"min.insync.replicas", "3"}},
		"topic-limit-small":           {replicas: 3, settings: []string{"max.message.bytes", "5000"}, bytes: 6000},
		"letters-kept-briefly":        {replicas: 3, settings: []string{"retention.ms", "60000"}, letters: []string{"shop.order"}},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			cl, db := newCluster(t), pgtest.New(t)
			if c.replicas > 0 {
				cl.topic(t, "shop.order", c.replicas, c.settings...)
			}
			waits(t, db, "shop.order", c.bytes)
			k := Kafka{Letters: c.letters}
			r := cl.doctor(t, db, k)
			f, found := find(r, code)
			if !found || f.Why == "" || !strings.Contains(f.Text, "shop.order") {
				t.Fatalf("the report is %+v", r)
			}
			cl.run(t, f.Mend)
			await.Until(t, "no finding "+code, func() bool {
				_, found := find(cl.doctor(t, db, k), code)
				return !found
			})
		})
	}
}

// run does what a command of Kafka's tools does.
func (c *cluster) run(t *testing.T, command string) {
	t.Helper()
	if care, commands, ok := strings.Cut(command, "\n"); ok && strings.HasPrefix(care, "# ") {
		command = commands
	}
	words := strings.Fields(command)
	option := func(name string) string {
		i := slices.Index(words, "--"+name)
		if i < 0 || i+1 == len(words) {
			t.Fatalf("%q has no --%s", command, name)
		}
		return words[i+1]
	}
	if option("bootstrap-server") != strings.Join(c.ListenAddrs(), ",") {
		t.Errorf("%q is for other brokers", command)
	}
	var err error
	switch words[0] {
	case "kafka-topics.sh":
		_, err = c.admin.CreateTopic(t.Context(), -1, -1, nil, option("topic"))
	case "kafka-configs.sh":
		name, value, _ := strings.Cut(option("add-config"), "=")
		_, err = c.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, option("entity-name"))
	case "kafka-acls.sh":
		err = c.allow(t.Context(), option, words)
	default:
		t.Fatalf("there is no tool for %q", command)
	}
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
}

func (c *cluster) allow(ctx context.Context, option func(string) string, words []string) error {
	b := kadm.NewACLs().Allow(option("allow-principal")).AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral)
	if slices.Contains(words, "--cluster") {
		b = b.Clusters()
	} else {
		b = b.Topics(option("topic"))
	}
	operations := map[string]kadm.ACLOperation{"Write": kmsg.ACLOperationWrite, "Describe": kmsg.ACLOperationDescribe, "DescribeConfigs": kmsg.ACLOperationDescribeConfigs, "IdempotentWrite": kmsg.ACLOperationIdempotentWrite}
	var ops []kadm.ACLOperation
	for i, word := range words {
		if word == "--operation" {
			ops = append(ops, operations[words[i+1]])
		}
	}
	_, err := c.admin.CreateACLs(ctx, b.Operations(ops...))
	return err
}

func TestATopicThatTheRelayMakesItselfIsNotMissing(t *testing.T) {
	t.Parallel()
	c, db := newCluster(t), pgtest.New(t)
	r := c.doctor(t, db, Kafka{Topics: []string{"shop.a", "shop.b"}, Letters: []string{"dead.{topic}"}})
	if f, _ := find(r, "topic-missing"); f.Text != "a topic is missing: dead.shop.a, dead.shop.b, shop.a, shop.b" || strings.Count(f.Mend, "\n") != 4 || !strings.HasPrefix(f.Mend, "# add --partitions N, ") {
		t.Errorf("found %+v", f)
	}
	if r := c.doctor(t, db, Kafka{Topics: []string{"shop.a"}, CreatesTopics: true}); len(codes(r)) > 0 {
		t.Errorf("found %v", codes(r))
	}
}

// A topic of states is compacted on purpose, and with the policy delete all that is older than the retention is gone at once.
func TestNoCommandTakesRecordsFromACompactedTopic(t *testing.T) {
	t.Parallel()
	c, db := newCluster(t), pgtest.New(t)
	c.topic(t, "shop.order", 3, "cleanup.policy", "compact,delete")
	waits(t, db, "shop.order", 10)
	f, found := find(c.doctor(t, db, Kafka{}), "topic-compacted")
	if !found || strings.Contains(f.Mend, ".sh") || !strings.Contains(f.Mend, "retention.ms") {
		t.Errorf("found %+v", f)
	}
}

// Every command is typed into a shell, and names of tables and users may hold anything.
func TestWhatIsPrintedIsQuotedForAShell(t *testing.T) {
	t.Parallel()
	inspector, err := kafka.NewInspector(kafka.Config{Brokers: []string{"127.0.0.1:1"}, SASL: &kafka.SASL{Mechanism: "PLAIN", Username: "CN=relay, O=My $(Shop)", Password: "x", WithoutTLS: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inspector.Close)
	if got := acl(&Kafka{Inspector: inspector}, "--cluster"); !strings.Contains(got, " --allow-principal 'User:CN=relay, O=My $(Shop)' --cluster") {
		t.Errorf("the command is %s", got)
	}
	db := pgtest.New(t, pgtest.Empty)
	pool := poolOf(t, db.URL)
	r, err := Examine(t.Context(), Config{Pool: pool, Table: `public."out $(box)"`})
	if err != nil {
		t.Fatal(err)
	}
	if f, _ := find(r, "migrations-pending"); f.Mend != `outbox migrate up --table 'public."out $(box)"'` {
		t.Errorf("the command is %s", f.Mend)
	}
}

func TestDeadHostsAreNamed(t *testing.T) {
	t.Parallel()
	c, db := newCluster(t), pgtest.New(t)
	other := newCluster(t, kfake.ClusterID("another"))
	brokers := append(c.ListenAddrs(), "127.0.0.1:1")
	r := examineKafka(t, db, Kafka{}, kafka.Config{Brokers: brokers})
	if f, _ := find(r, "broker-unreachable"); !r.Ready || !strings.Contains(f.Text, "127.0.0.1:1 does not answer") || strings.Contains(f.Text, c.ListenAddrs()[0]) {
		t.Errorf("one of four: %+v", r)
	}
	r = examineKafka(t, db, Kafka{}, kafka.Config{Brokers: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	if f, _ := find(r, "brokers-unreachable"); r.Ready || !strings.Contains(f.Text, "127.0.0.1:1") || !strings.Contains(f.Text, "127.0.0.1:2") || len(codes(r)) != 1 {
		t.Errorf("none of two: %+v", r)
	}
	r = examineKafka(t, db, Kafka{}, kafka.Config{Brokers: []string{c.ListenAddrs()[0], other.ListenAddrs()[0]}})
	if _, found := find(r, "brokers-of-two-clusters"); !found || r.Ready {
		t.Errorf("of two clusters: %+v", r)
	}
}

func TestAClusterThatCallsItsBrokersByNamesThatLeadNowhereIsFound(t *testing.T) {
	t.Parallel()
	c, db := newCluster(t), pgtest.New(t)
	c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		b := kmsg.NewMetadataResponseBroker()
		b.Host, b.Port = "127.0.0.1", 1
		resp.Brokers = append(resp.Brokers, b)
		return resp, nil, true
	})
	r := examineKafka(t, db, Kafka{}, kafka.Config{Brokers: c.ListenAddrs()[:1]})
	if f, found := find(r, "broker-advertised-unreachable"); !found || r.Ready || !strings.Contains(f.Text, "calls one of its brokers 127.0.0.1:1") {
		t.Errorf("the report is %+v", r)
	}
}

func TestWhatTheUserMayNotDoIsFoundWithTheRuleThatAllowsIt(t *testing.T) {
	t.Parallel()
	const mechanism, password = "SCRAM-SHA-256", "of-a-test"
	base := newCluster(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser(mechanism, "admin", password), kfake.User(mechanism, "relay", password))
	base.admin = adminOf(t, base.Cluster, kgo.SASL(scram.Auth{User: "admin", Pass: password}.AsSha256Mechanism()))
	base.sasl = &kafka.SASL{Mechanism: mechanism, Username: "relay", Password: password}
	base.topic(t, "shop.order", 3)
	db := pgtest.New(t)
	waits(t, db, "shop.order", 10)
	forbidden := base.doctor(t, db, Kafka{})
	for _, code := range []string{"produce-forbidden", "topic-forbidden"} {
		if f, found := find(forbidden, code); !found || !strings.Contains(f.Text, "User:relay") {
			t.Fatalf("%s: %+v", code, f)
		}
	}
	for _, rule := range forbidden.ACLs {
		base.run(t, rule)
	}
	r := base.doctor(t, db, Kafka{Topics: []string{"shop.refund"}, Letters: []string{"dead.{topic}"}, CreatesTopics: true})
	wanted := "kafka-acls.sh --bootstrap-server " + strings.Join(base.ListenAddrs(), ",") +
		" --add --allow-principal User:relay --operation Write --operation DescribeConfigs --operation Create --topic dead.shop.order --topic dead.shop.refund --topic shop.order --topic shop.refund"
	if !slices.Equal(r.ACLs, []string{wanted}) {
		t.Errorf("the rules are %q, want %q", r.ACLs, wanted)
	}
	r = base.doctor(t, db, Kafka{})
	if got := codes(r); len(got) > 0 {
		t.Errorf("with what is printed, found %v", got)
	}
	i := slices.IndexFunc(r.NotLookedAt, func(u Unseen) bool { return strings.Contains(u.Why, "DESCRIBE_CONFIGS on the cluster") })
	if i < 0 {
		t.Errorf("the quotas may not be seen, and not looked at are %+v", r.NotLookedAt)
	}
	bad := *base.sasl
	bad.Password = "another"
	r = examineKafka(t, db, Kafka{}, kafka.Config{Brokers: base.ListenAddrs(), SASL: &bad})
	if f, found := find(r, "brokers-unreachable"); !found || strings.Contains(fmt.Sprintf("%+v", r), "another") || !strings.Contains(f.Text, "SASL") {
		t.Errorf("with another password: %+v", f)
	}
}

func TestAQuotaOfTheRelayIsFoundAndOneOfAnotherClientIsNot(t *testing.T) {
	t.Parallel()
	c, db := newCluster(t), pgtest.New(t)
	for client, want := range map[string]bool{"somebody": false, "outbox-relay": true} {
		_, err := c.admin.AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &client}}, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1024}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		f, found := find(c.doctor(t, db, Kafka{}), "producer-quota")
		if client == "outbox-relay" && (!found || !strings.Contains(f.Text, "1024 bytes")) || client != "outbox-relay" && strings.Contains(f.Text, client) {
			t.Errorf("of %s: %+v, want %v", client, f, want)
		}
	}
}

// What the fake cluster does not know is looked at in what a broker would say.
func TestWhatABrokerSaysOfATopicIsJudged(t *testing.T) {
	t.Parallel()
	inspector, err := kafka.NewInspector(kafka.Config{Brokers: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inspector.Close)
	well := map[string]string{"min.insync.replicas": "2"}
	for want, state := range map[string]kafka.TopicState{
		"topic-unclean-election": {Replicas: 3, Settings: map[string]string{"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}},
		"topic-without-leader":   {Replicas: 3, Settings: well, Leaderless: 1},
		"topic-replication-low":  {Replicas: 2, Settings: map[string]string{"min.insync.replicas": "1"}},
		"topic-settings-hidden":  {Replicas: 3},
		"topic-unusable":         {Topic: kafka.Topic{Err: errors.New("a policy")}},
		"":                       {Replicas: 3, Settings: well},
	} {
		var got string
		for _, f := range (topicLook{Kafka: &Kafka{Inspector: inspector}, TopicState: state}).faults() {
			got += f.Code
		}
		if got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

func TestTopicsWithOneFaultAreOneFinding(t *testing.T) {
	t.Parallel()
	var faults []topicFault
	for i := range shownTopics + 2 {
		faults = append(faults, topicFault{Finding{Code: "a-b", Text: "bad", Mend: fmt.Sprint("mend ", i)}, fmt.Sprint("t", i), "look"})
	}
	found := joined(faults)
	if len(found) != 1 || !strings.HasPrefix(found[0].Text, "bad: t0, t1, ") || !strings.HasSuffix(found[0].Text, ", t19, and 2 more") || strings.Count(found[0].Mend, "\n") != shownTopics || strings.Count(found[0].Mend, "# look\n") != 1 {
		t.Errorf("found %+v", found)
	}
}
