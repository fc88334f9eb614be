package relay

// WithStep returns the configuration with a hook that is called at the points where a crash is tested: read, publish, acked, settle, settled.
func WithStep(c Config, step func(point string)) Config {
	c.step = step
	return c
}
