package kafka_test

import (
	"context"
	"fmt"
	"log"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outbox-relay/outbox/kafka"
	"github.com/outbox-relay/outbox/relay"
)

func ExamplePublisher() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(12, "order-service.order.confirmed"))
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()

	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: broker.ListenAddrs()})
	if err != nil {
		log.Fatal(err)
	}
	defer publisher.Destroy()
	if err := publisher.Open(context.Background()); err != nil {
		log.Fatal(err)
	}

	done := make(chan error)
	publisher.Publish([]*relay.Event{{
		ID: 1, EventID: uuid.New(), Type: "order.confirmed.v1",
		Topic: "order-service.order.confirmed", PartitionKey: "order-1", Payload: []byte(`{"total": 12.50}`),
	}}, func(_ *relay.Event, err error) { done <- err })
	fmt.Println("in Kafka:", <-done == nil)
	// Output: in Kafka: true
}
