package kafka

import (
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// calmAfter is how long no broker must have had a client wait until that is news again.
const calmAfter = time.Minute

// throttling is how brokers have the clients of a process wait because a quota is exceeded. All copies of a Config share it.
type throttling struct {
	log *slog.Logger
	now func() time.Time

	mu sync.Mutex
	// until is when the last wait ends.
	until time.Time
	total time.Duration
}

var _ kgo.HookBrokerThrottle = (*throttling)(nil)

// OnBrokerThrottle is of the client. What several brokers ask for at the same time counts once: it is how long something was held up.
func (t *throttling) OnBrokerThrottle(broker kgo.BrokerMetadata, wait time.Duration, _ bool) {
	if t.add(wait) {
		t.log.Warn("a broker has this client wait: a quota is exceeded", "address", net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))), "again_in", wait.String(),
			"note", "outbox doctor names the quotas of the user and the client id; requests wait until the broker lets them through, and nothing is lost. It is said again only after a minute without")
	}
}

// add counts a wait that begins now, and tells whether it is news.
func (t *throttling) add(wait time.Duration) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	news = now.Sub(t.until) > calmAfter
	from := now
	if t.until.After(from) {
		from = t.until
	}
	if until := now.Add(wait); until.After(from) {
		t.total += until.Sub(from)
		t.until = until
	}
	return news
}

// sum is how long clients were told to wait.
func (t *throttling) sum() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// Throttled is how long brokers have told this publisher to wait because a quota is exceeded.
func (p *Publisher) Throttled() time.Duration { return p.cfg.throttle.sum() }
