package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sendTimeout bounds one try at sending a record on. One whose answer may be on its way is waited for, so that it is not sent twice.
const sendTimeout = 30 * time.Second

// sender sends records on by a client of its own, made when it is needed, and made anew when a topic was: a client that has known the old one never sends to the new one.
type sender struct {
	cfg  Config
	opts []kgo.Opt

	mu     sync.Mutex
	client *kgo.Client
	closed bool
}

func newSender(c Config, opts ...kgo.Opt) *sender { return &sender{cfg: c, opts: opts} }

func (s *sender) send(ctx context.Context, record *kgo.Record) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := s.try(ctx, record)
	if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kgo.ErrClientClosed) { // closed because of another record's topic
		err = s.try(ctx, record)
	}
	return err
}

func (s *sender) try(ctx context.Context, record *kgo.Record) error {
	client, err := s.open()
	if err != nil {
		return err
	}
	err = client.ProduceSync(ctx, record).FirstErr()
	if errors.Is(err, kerr.UnknownTopicID) {
		s.drop(client)
	}
	return err
}

func (s *sender) open() (*kgo.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, kgo.ErrClientClosed
	}
	if s.client == nil {
		client, err := kgo.NewClient(append(clientOptions(s.cfg, newNetwork(s.cfg)), s.opts...)...)
		if err != nil {
			return nil, fmt.Errorf("make kafka client for records that are sent on: %w", err)
		}
		s.client = client
	}
	return s.client, nil
}

// drop has the next record sent by another client.
func (s *sender) drop(client *kgo.Client) {
	s.mu.Lock()
	if s.client == client {
		s.client = nil
	}
	s.mu.Unlock()
	client.Close()
}

func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed = true; s.client != nil {
		s.client.Close()
	}
}
