//go:build integration && unix

package chaos_test

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

func killBroker(l *lab, s step) func() {
	n := l.cluster.Nodes()[s.node]
	if err := n.Kill(); err != nil {
		l.t.Error(err)
	}
	return func() { l.restartNode(s) }
}

func restartBroker(l *lab, s step) func() {
	n := l.cluster.Nodes()[s.node]
	if err := n.Stop(); err != nil {
		l.t.Error(err)
	}
	return func() { l.restartNode(s) }
}

func (l *lab) restartNode(s step) {
	if err := l.cluster.Nodes()[s.node].Restart(context.Background()); err != nil {
		l.t.Error(err)
	}
}

func freezeBroker(l *lab, s step) func() {
	n := l.cluster.Nodes()[s.node]
	if err := n.Pause(); err != nil {
		l.t.Error(err)
	}
	return func() {
		if err := n.Continue(); err != nil {
			l.t.Error(err)
		}
	}
}

// moveLeaders gives every partition another preferred leader, and has that one elected.
func moveLeaders(l *lab, _ step) func() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	topics, err := l.cluster.admin.ListTopics(ctx, l.topics...)
	if err != nil {
		l.t.Logf("    the leaders stay: %v", err)
		return nil
	}
	var move kadm.AlterPartitionAssignmentsReq
	var set kadm.TopicsSet
	topics.EachPartition(func(p kadm.PartitionDetail) {
		if len(p.Replicas) > 1 {
			move.Assign(p.Topic, p.Partition, append(p.Replicas[1:len(p.Replicas):len(p.Replicas)], p.Replicas[0]))
			set.Add(p.Topic, p.Partition)
		}
	})
	if _, err := l.cluster.admin.AlterPartitionAssignments(ctx, move); err != nil {
		l.t.Logf("    the leaders stay: %v", err)
		return nil
	}
	if _, err := l.cluster.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, set); err != nil {
		l.t.Logf("    the leaders stay: %v", err)
	}
	return nil
}

// tooFewReplicas asks for all replicas in sync and takes one away.
func tooFewReplicas(l *lab, s step) func() {
	l.setInSync("3")
	n := l.cluster.Nodes()[s.node]
	if err := n.Kill(); err != nil {
		l.t.Error(err)
	}
	return func() {
		l.restartNode(s)
		l.setInSync("2")
	}
}

func (l *lab) setInSync(n string) { l.setTopics("min.insync.replicas", n) }

// setTopics changes a setting of all topics. It tries until a broker takes it: some may be away.
func (l *lab) setTopics(name, value string) { l.t.Helper(); l.setSome(l.topics, name, value) }

func (l *lab) setSome(topics []string, name, value string) {
	l.t.Helper()
	l.await("the brokers take a topic's setting", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		answers, err := l.cluster.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topics...)
		if err != nil {
			return false
		}
		for _, a := range answers {
			if a.Err != nil {
				return false
			}
		}
		return true
	})
}
