//go:build integration && unix

package devkafka_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outbox-relay/outbox/internal/await"
	"github.com/outbox-relay/outbox/internal/devkafka"
)

const childEnv = "DEVKAFKA_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		beChild(dir)
	}
	os.Exit(m.Run())
}

// beChild starts a broker, prints its address, and waits to be killed.
func beChild(dir string) {
	cluster, err := devkafka.Start(context.Background(), devkafka.Options{Dir: dir})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(cluster.Brokers()[0])
	select {}
}

func start(t *testing.T, opts devkafka.Options) *devkafka.Cluster {
	t.Helper()
	cluster, err := devkafka.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return cluster
}

func client(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(100 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func createTopic(t *testing.T, cluster *devkafka.Cluster, topic string) {
	t.Helper()
	if err := devkafka.CreateTopic(t.Context(), cluster.Brokers(), topic, 1, nil); err != nil {
		t.Fatal(err)
	}
}

func produce(t *testing.T, cl *kgo.Client, topic, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatalf("produce %s: %v", value, err)
	}
}

func values(t *testing.T, brokers []string, topic string, n int) string {
	t.Helper()
	cl := client(t, brokers, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for len(got) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return strings.Join(got, " ")
}

func TestAKilledOrStoppedBrokerComesBackWithItsRecords(t *testing.T) {
	t.Parallel()
	cluster := start(t, devkafka.Options{})
	node := cluster.Nodes()[0]
	cl := client(t, cluster.Brokers())
	createTopic(t, cluster, "facts")
	produce(t, cl, "facts", "before")
	for _, end := range []func() error{node.Kill, node.Stop} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if conn, err := net.Dial("tcp", node.Addr()); err == nil {
			conn.Close()
			t.Fatal("the broker's port is open after its end")
		}
		if err := node.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		produce(t, cl, "facts", "after")
	}
	if got, want := values(t, cluster.Brokers(), "facts", 3), "before after after"; got != want {
		t.Errorf("records: got %q, want %q", got, want)
	}
}

func TestAPausedBrokerKeepsConnectionsAndAnswersNothing(t *testing.T) {
	t.Parallel()
	cluster := start(t, devkafka.Options{})
	node := cluster.Nodes()[0]
	cl := client(t, cluster.Brokers())
	if err := cl.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := node.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := cl.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ping of a paused broker: got %v, want %v", err, context.DeadlineExceeded)
	}
	if err := node.Continue(); err != nil {
		t.Fatal(err)
	}
	if err := cl.Ping(t.Context()); err != nil {
		t.Errorf("Ping after Continue: %v", err)
	}
}

func TestThreeNodesGoOnWithoutOne(t *testing.T) {
	t.Parallel()
	cluster := start(t, devkafka.Options{Nodes: 3})
	cl := client(t, cluster.Brokers())
	createTopic(t, cluster, "facts")
	produce(t, cl, "facts", "all")
	node := cluster.Nodes()[2]
	if err := node.Kill(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, "facts", "two")
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := values(t, []string{node.Addr()}, "facts", 2), "all two"; got != want {
		t.Errorf("records: got %q, want %q", got, want)
	}
}

func TestConfigWinsAndTopicsAreNotCreatedByThemselves(t *testing.T) {
	t.Parallel()
	cluster := start(t, devkafka.Options{Config: map[string]string{"num.partitions": "7"}})
	cl := client(t, cluster.Brokers(), kgo.AllowAutoTopicCreation())
	if err := devkafka.CreateTopic(t.Context(), cluster.Brokers(), "made", -1, nil); err != nil {
		t.Fatal(err)
	}
	topics, err := kadm.NewClient(cl).ListTopics(t.Context(), "made", "missing")
	if err != nil {
		t.Fatal(err)
	}
	if got := len(topics["made"].Partitions); got != 7 {
		t.Errorf("partitions of a topic with defaults: got %d, want 7", got)
	}
	if topics["missing"].Err == nil {
		t.Error("a topic that nobody made exists")
	}
}

func TestABrokerDoesNotOutliveItsParent(t *testing.T) {
	t.Parallel()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+t.TempDir())
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	addr := strings.TrimSpace(line)
	if conn, err := net.Dial("tcp", addr); err != nil {
		t.Fatalf("the child's broker: %s: %v", addr, err)
	} else {
		conn.Close()
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	await.Until(t, "the port of the orphaned broker is closed", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

func TestTheLogInAGivenFolderOutlivesClose(t *testing.T) {
	t.Parallel()
	given := filepath.Join(t.TempDir(), "given")
	cluster := start(t, devkafka.Options{Dir: given})
	if err := cluster.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(given, "node-1.log")); err != nil {
		t.Errorf("the log in a given folder: %v", err)
	}
}
