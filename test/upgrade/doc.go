//go:build integration

// Package upgrade holds the tests of a rolling deploy: relays of two versions beside each other, on a database that is migrated under them.
//
// There are three programs: today's, of this checkout; the older one, from the sources in testdata; and the next one, which is today's with two more migrations.
//
// testdata/older.tar.gz holds the sources of an older commit as git has them, so that the tests run in a clone without history, too; where git has the commit, a test
// compares the two. It is the oldest commit whose relays today's schema promises to carry. Another commit takes its place by
//
//	COMMIT=… go generate -tags integration ./test/upgrade
//
// KAFKA_BROKERS names the brokers, host:port separated by commas; without it the tests start one of their own. A broker that cannot be had fails the tests. They run
// with the build tag integration.
package upgrade

//go:generate sh -c "git -C ../.. archive --format=tar $COMMIT -- go.mod go.sum '*.go' migrate/sql ':(exclude)*_test.go' ':(exclude)bench' ':(exclude)examples' ':(exclude)test' ':(exclude)vet' | gzip -9n >testdata/older.tar.gz"
