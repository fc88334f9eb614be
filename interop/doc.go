//go:build integration

// Package interop runs the relay between a service and a consumer that know nothing of it, and beside the service's own relay: a writer on
// TypeORM, a consumer on kafkajs, and a relay on NestJS and both, in src/. Its tests run with the build tag integration and need Node.js 20 or newer, npm, and what
// [github.com/outbox-relay/outbox/internal/devpg] and [github.com/outbox-relay/outbox/internal/devkafka] need.
package interop
