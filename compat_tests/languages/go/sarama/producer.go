package main

import (
	"strings"

	"github.com/IBM/sarama"

	"kqueue/languages/calls"
)

func produce() {
	made := calls.New("sarama.SyncProducer")
	producer, err := sarama.NewSyncProducer(bootstrap, idempotent())
	calls.Must(err)
	made.Call("SendMessage", func() (any, error) {
		partition, offset, err := producer.SendMessage(message(source, 1, "one"))
		return []any{partition, offset}, err
	})
	made.Call("SendMessage/unknown topic", func() (any, error) {
		_, _, err := producer.SendMessage(message(nowhere, 0, "one"))
		return Nothing, err
	})
	made.Call("SendMessages", func() (any, error) {
		sent := []*sarama.ProducerMessage{message(source, 0, "two"), message(source, 0, "three")}
		err := producer.SendMessages(sent)
		return []int64{sent[0].Offset, sent[1].Offset}, err
	})
	made.Call("IsTransactional", func() (any, error) { return producer.IsTransactional(), nil })
	made.Do("Close", producer.Close)

	producer, err = sarama.NewSyncProducer(bootstrap, transactional("sarama-transactions"))
	calls.Must(err)
	transactions(made, producer, func(value string) error {
		_, _, err := producer.SendMessage(message(target, 0, value))
		return err
	})
	successor, err := sarama.NewSyncProducer(bootstrap, transactional("sarama-transactions"))
	calls.Must(err)
	made.Do("BeginTxn/fenced", producer.BeginTxn)
	made.Call("SendMessage/fenced", func() (any, error) {
		_, _, err := producer.SendMessage(message(target, 0, "late"))
		return Nothing, err
	})
	made.Call("TxnStatus/fenced", func() (any, error) { return status(producer.TxnStatus()), nil })
	producer.Close()
	calls.Must(successor.Close())
	made.Print(class[sarama.SyncProducer](), nil)
}

func status(flags sarama.ProducerTxnStatusFlag) []string {
	return strings.Split(flags.String(), "|")
}

// transactor is what both producers have of transactions.
type transactor interface {
	AbortTxn() error
	AddMessageToTxn(*sarama.ConsumerMessage, string, *string) error
	AddMessageToTxnWithGroupMetadata(*sarama.ConsumerMessage, *sarama.ConsumerGroupMetadata, *string) error
	AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata, string) error
	AddOffsetsToTxnWithGroupMetadata(map[string][]*sarama.PartitionOffsetMetadata, *sarama.ConsumerGroupMetadata) error
	BeginTxn() error
	CommitTxn() error
	TxnStatus() sarama.ProducerTxnStatusFlag
}

// transactions makes the calls of one transactional producer: a commit, an abort, offsets of groups.
func transactions(made *calls.Calls, producer transactor, send func(string) error) {
	made.Do("BeginTxn", producer.BeginTxn)
	calls.Must(send("committed"))
	made.Call("TxnStatus", func() (any, error) { return status(producer.TxnStatus()), nil })
	made.Do("CommitTxn", producer.CommitTxn)
	calls.Must(producer.BeginTxn())
	calls.Must(send("aborted"))
	made.Do("AbortTxn", producer.AbortTxn)
	calls.Must(producer.BeginTxn())
	made.Do("CommitTxn/empty", producer.CommitTxn)
	calls.Must(producer.BeginTxn())
	calls.Must(send("with offsets"))
	read := func(offset int64) *sarama.ConsumerMessage {
		return &sarama.ConsumerMessage{Topic: source, Partition: 0, Offset: offset}
	}
	offsets := map[string][]*sarama.PartitionOffsetMetadata{source: {{Partition: 1, Offset: 1, LeaderEpoch: -1}}}
	made.Do("AddMessageToTxn", func() error { return producer.AddMessageToTxn(read(0), "sarama-messages", nil) })
	made.Do("AddOffsetsToTxn", func() error { return producer.AddOffsetsToTxn(offsets, "sarama-offsets") })
	made.Do("AddMessageToTxnWithGroupMetadata", func() error {
		return producer.AddMessageToTxnWithGroupMetadata(read(1), sarama.NewConsumerGroupMetadata("sarama-messages"), nil)
	})
	made.Do("AddOffsetsToTxnWithGroupMetadata", func() error {
		return producer.AddOffsetsToTxnWithGroupMetadata(offsets, sarama.NewConsumerGroupMetadata("sarama-more-offsets"))
	})
	made.Do("CommitTxn/offsets", producer.CommitTxn)
}

// transact reads the offsets that the transactions above committed.
func transact() {
	made := calls.New("sarama offsets in transactions")
	admin, err := sarama.NewClusterAdmin(bootstrap, settings())
	calls.Must(err)
	defer admin.Close()
	for group, partition := range map[string]int32{"sarama-messages": 0, "sarama-offsets": 1, "sarama-more-offsets": 1} {
		made.Until(group, partitionOffsets[partition], func() (any, error) {
			found, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{source: {partition}})
			if err != nil {
				return nil, err
			}
			block := found.GetBlock(source, partition)
			return block.Offset, block.Err
		})
	}
}

var partitionOffsets = map[int32]int64{0: 2, 1: 1}

func produceAsync() {
	made := calls.New("sarama.AsyncProducer")
	producer, err := sarama.NewAsyncProducer(bootstrap, transactional("sarama-async"))
	calls.Must(err)
	send := func(value string) error {
		producer.Input() <- message(target, 1, value)
		select {
		case <-producer.Successes():
			return nil
		case failed := <-producer.Errors():
			return failed
		}
	}
	made.Call("IsTransactional", func() (any, error) { return producer.IsTransactional(), nil })
	transactions(made, producer, send)
	calls.Must(producer.BeginTxn())
	made.Do("Input", func() error { producer.Input() <- message(target, 1, "last"); return nil })
	made.Call("Successes", func() (any, error) { return (<-producer.Successes()).Partition, nil })
	made.Call("Errors", func() (any, error) {
		producer.Input() <- message(target, 99, "nowhere")
		failed := <-producer.Errors()
		return Nothing, failed.Err
	})
	made.Do("AbortTxn/after an error", producer.AbortTxn)
	made.Do("Close", producer.Close)
	plain, err := sarama.NewAsyncProducer(bootstrap, idempotent())
	calls.Must(err)
	made.Call("AsyncClose", func() (any, error) {
		plain.Input() <- message(source, 1, "async")
		plain.AsyncClose()
		return (<-plain.Successes()).Offset, nil
	})
	made.Print(class[sarama.AsyncProducer](), nil)
}
