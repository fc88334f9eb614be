package relay

// signal wakes one waiter; setting it twice before it is waited for is the same as once.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}
