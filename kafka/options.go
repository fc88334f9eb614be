package kafka

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	dialTimeout  = 2 * time.Second
	retryBackoff = 250 * time.Millisecond
	// maxBuffered is out of reach: the relay bounds what is outstanding, and a full client would make Publish wait for the broker.
	maxBuffered = math.MaxInt32
)

var codecs = map[string]func() kgo.CompressionCodec{
	"none":   kgo.NoCompression,
	"gzip":   kgo.GzipCompression,
	"snappy": kgo.SnappyCompression,
	"lz4":    kgo.Lz4Compression,
	"zstd":   kgo.ZstdCompression,
}

// clientOptions are the options of every client. Acks from all replicas and the idempotent producer are the client's defaults and
// stay untouched: with them five requests in flight keep their order through every retry.
func clientOptions(c Config, n *network) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.Dialer(n.dial),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(codecs[c.Compression]()),
		kgo.ProduceRequestTimeout(c.produceTimeout()),
		kgo.RequestTimeoutOverhead(c.requestOverhead()),
		kgo.BrokerMaxWriteBytes(maxRequestBytes),
		kgo.MetadataMinAge(retryBackoff),
		kgo.MetadataMaxAge(time.Minute),
		kgo.RetryBackoffFn(func(int) time.Duration { return retryBackoff }),
		kgo.UnknownTopicRetries(4),
		kgo.MaxBufferedRecords(maxBuffered),
		kgo.DisableClientMetrics(),
		kgo.WithHooks(c.throttle),
		kgo.WithLogger(newClientLogger(c.Logger, c.now, c.sent)),
	}
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(c.SASL.mechanism(c)))
	}
	return opts
}
