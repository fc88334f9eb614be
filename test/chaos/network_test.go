//go:build integration && unix

package chaos_test

import (
	"time"
)

func cutDatabase(l *lab, s step) func() {
	db := l.relays[s.relay].db
	db.Cut()
	return db.Heal
}

// loseDatabase ends as when the way between has forgotten the connections: they are reset.
func loseDatabase(l *lab, s step) func() {
	db := l.relays[s.relay].db
	db.Cut()
	return func() {
		db.Reset()
		db.Heal()
	}
}

func resetDatabase(l *lab, s step) func() {
	l.relays[s.relay].db.Reset()
	return nil
}

func halfCloseDatabase(l *lab, s step) func() {
	l.relays[s.relay].db.HalfClose()
	return nil
}

func slowDatabase(l *lab, s step) func() {
	db := l.relays[s.relay].db
	db.Slow(time.Duration(20+s.dice%200) * ms)
	return db.Heal
}

func cutBrokers(l *lab, s step) func() {
	for _, link := range l.relays[s.relay].kafka {
		link.Cut()
	}
	return func() {
		for _, link := range l.relays[s.relay].kafka {
			link.Heal()
		}
	}
}

func loseBrokers(l *lab, s step) func() {
	cutBrokers(l, s)
	return func() {
		for _, link := range l.relays[s.relay].kafka {
			link.Reset()
			link.Heal()
		}
	}
}

func resetBrokers(l *lab, s step) func() {
	for _, link := range l.relays[s.relay].kafka {
		link.Reset()
	}
	return nil
}

func halfCloseBrokers(l *lab, s step) func() {
	for _, link := range l.relays[s.relay].kafka {
		link.HalfClose()
	}
	return nil
}

func slowBrokers(l *lab, s step) func() {
	for _, link := range l.relays[s.relay].kafka {
		link.Slow(time.Duration(5+s.dice%100) * ms)
	}
	return func() {
		for _, link := range l.relays[s.relay].kafka {
			link.Heal()
		}
	}
}
