package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"kqueue/languages/calls"
)

// failover writes numbered records and reads them as a group, while brokers of a cluster are killed. It prints the
// values that it has read, each once, in order.
func failover(topic string, count int) {
	ctx := context.Background()
	consumer := client(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	producer := client()
	go func() {
		for number := range count {
			calls.Must(producer.ProduceSync(ctx, record(topic, 0, strconv.Itoa(number))).FirstErr())
		}
	}()
	values, seen := []string{}, map[string]bool{}
	for len(values) < count {
		fetches := consumer.PollFetches(ctx)
		calls.Must(fetches.Err())
		fetches.EachRecord(func(found *kgo.Record) {
			if value := string(found.Value); !seen[value] {
				seen[value] = true
				values = append(values, value)
			}
		})
	}
	calls.Must(json.NewEncoder(os.Stdout).Encode(values))
}
