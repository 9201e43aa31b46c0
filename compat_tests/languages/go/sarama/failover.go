package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"kqueue/languages/calls"
)

// failover writes numbered records and reads them as a group, while brokers of a cluster are killed. It prints the
// values that it has read, each once, in order.
func failover(topic string, count int) {
	config := idempotent()
	config.Producer.Retry.Max = 100
	config.Metadata.Retry.Max = 100
	config.Metadata.Retry.Backoff = 100 * time.Millisecond
	config.Consumer.Offsets.AutoCommit.Enable = true
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	producer, err := sarama.NewSyncProducer(bootstrap, config)
	calls.Must(err)
	group, err := sarama.NewConsumerGroup(bootstrap, topic, config)
	calls.Must(err)
	go func() {
		for number := range count {
			_, _, err := producer.SendMessage(message(topic, 0, strconv.Itoa(number)))
			calls.Must(err)
		}
	}()
	go func() {
		for range group.Errors() { // of brokers that are gone: the group goes on
		}
	}()
	reader := &distinct{count: count, seen: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	reader.done = cancel
	for ctx.Err() == nil {
		if group.Consume(ctx, []string{topic}, reader) != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
	calls.Must(json.NewEncoder(os.Stdout).Encode(reader.values))
}

// distinct collects values, each once, in order.
type distinct struct {
	values []string
	seen   map[string]bool
	count  int
	done   func()
}

func (*distinct) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*distinct) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (reader *distinct) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for found := range claim.Messages() {
		if value := string(found.Value); !reader.seen[value] {
			reader.seen[value] = true
			reader.values = append(reader.values, value)
		}
		session.MarkMessage(found, "")
		if len(reader.values) == reader.count {
			reader.done()
		}
	}
	return nil
}
