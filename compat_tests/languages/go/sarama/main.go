// Every call of sarama that needs no second broker and no security, or work while brokers are killed:
//
//	sarama BOOTSTRAP
//	sarama BOOTSTRAP TOPIC COUNT
package main

import (
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"kqueue/languages/calls"
)

const (
	callMax = 20 * time.Second
	source  = "sarama-source"
	target  = "sarama-target"
	copies  = "sarama-copies"
	topic   = "sarama-admin"
	nowhere = "sarama-nowhere"
	// Nothing is the result of a call that ought to fail.
	Nothing = "no error"
)

var bootstrap []string

func main() {
	bootstrap = strings.Split(os.Args[1], ",")
	if len(os.Args) > 2 {
		count, err := strconv.Atoi(os.Args[3])
		calls.Must(err)
		failover(os.Args[2], count)
		return
	}
	client, err := sarama.NewClient(bootstrap, settings())
	calls.Must(err)
	admin, err := sarama.NewClusterAdminFromClient(client)
	calls.Must(err)
	for _, name := range []string{source, target, copies} {
		calls.Must(admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false))
	}
	produce()
	transact()
	produceAsync()
	useClient(client)
	consume(client)
	manageOffsets()
	consumeAsGroup()
	administer(admin)
	request(client)
}

func settings() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Producer.Return.Successes = true
	made.Producer.Partitioner = sarama.NewManualPartitioner
	made.Consumer.Return.Errors = true
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Offsets.AutoCommit.Enable = false
	made.Consumer.MaxWaitTime = 100 * time.Millisecond
	made.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	made.Consumer.Group.Heartbeat.Interval = 100 * time.Millisecond
	made.Metadata.Retry.Max = 1
	return made
}

func idempotent() *sarama.Config {
	made := settings()
	made.Producer.Idempotent = true
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Net.MaxOpenRequests = 1
	return made
}

func transactional(id string) *sarama.Config {
	made := idempotent()
	made.Producer.Transaction.ID = id
	made.Producer.Transaction.Timeout = 40 * time.Second
	made.Producer.Transaction.Retry.Max = 50
	return made
}

func message(topic string, partition int32, value string) *sarama.ProducerMessage {
	key, text := sarama.StringEncoder("key"), sarama.StringEncoder(value)
	return &sarama.ProducerMessage{Topic: topic, Partition: partition, Key: key, Value: text}
}

// failure is an error code of the protocol as an error; nil if it says that there is none.
func failure(code sarama.KError, err error) error {
	if err == nil && code != sarama.ErrNoError {
		return code
	}
	return err
}

func class[Class any]() reflect.Type {
	return reflect.TypeFor[Class]()
}

// take reads as many messages, and returns their values in order.
func take(count int, from <-chan *sarama.ConsumerMessage) []string {
	values := []string{}
	end := time.After(callMax)
	for len(values) < count {
		select {
		case found := <-from:
			values = append(values, string(found.Value))
		case <-end:
			return values
		}
	}
	return values
}
