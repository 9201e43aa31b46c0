package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kqueue/languages/calls"
)

func produce(made *calls.Calls) {
	producer := client()
	made.Do("Ping", func() error { return producer.Ping(limited()) })
	made.Call("ProduceSync", func() (any, error) {
		results := producer.ProduceSync(limited(), record(source, 0, "one"), record(source, 0, "two"))
		return offsets(results), results.FirstErr()
	})
	made.Call("ProduceSync/unknown topic", func() (any, error) {
		return Nothing, producer.ProduceSync(limited(), record("franz-nowhere", 0, "one")).FirstErr()
	})
	for _, way := range []struct {
		name string
		call func(context.Context, *kgo.Record, func(*kgo.Record, error))
	}{{"Produce", producer.Produce}, {"TryProduce", producer.TryProduce}} {
		made.Call(way.name, func() (any, error) {
			promised := make(chan error, 1)
			sent := record(source, 1, way.name)
			way.call(limited(), sent, func(_ *kgo.Record, err error) { promised <- err })
			err := <-promised
			return sent.Offset, err
		})
	}
	made.Do("Flush", func() error { return producer.Flush(limited()) })
	made.Call("BufferedProduceRecords", func() (any, error) { return producer.BufferedProduceRecords(), nil })
	made.Call("BufferedProduceBytes", func() (any, error) { return producer.BufferedProduceBytes(), nil })
	made.Call("ProducerID", func() (any, error) {
		id, epoch, err := producer.ProducerID(limited())
		return []any{id >= 0, epoch}, err
	})
	made.Call("PartitionLeader", func() (any, error) {
		leader, epoch, err := producer.PartitionLeader(source, 1)
		return []any{leader, epoch >= 0}, err
	})
	made.Do("EnsureProduceConnectionIsOpen", func() error { return producer.EnsureProduceConnectionIsOpen(limited()) })
	made.Do("ForceMetadataRefresh", func() error { producer.ForceMetadataRefresh(); return nil })
	request(made, producer)
	made.Do("PurgeTopicsFromProducing", func() error { producer.PurgeTopicsFromProducing(source); return nil })
	made.Do("PurgeTopicsFromClient", func() error { producer.PurgeTopicsFromClient(source); return nil })
	made.Do("UpdateSeedBrokers", func() error { return producer.UpdateSeedBrokers(bootstrap) })
	made.Do("Close", func() error { producer.Close(); return nil })
}

// request makes the calls that take a request of the protocol as it is.
func request(made *calls.Calls, producer *kgo.Client) {
	made.Call("Request", func() (any, error) {
		response, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(limited(), producer)
		if err != nil {
			return nil, err
		}
		return len(response.Brokers), nil
	})
	made.Call("RequestSharded", func() (any, error) {
		shards := producer.RequestSharded(limited(), kmsg.NewPtrListGroupsRequest())
		return len(shards), shards[0].Err
	})
	made.Call("RequestCachedMetadata", func() (any, error) {
		wanted := kmsg.NewPtrMetadataRequest()
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(source)
		wanted.Topics = append(wanted.Topics, topic)
		response, err := producer.RequestCachedMetadata(limited(), wanted, time.Minute)
		if err != nil {
			return nil, err
		}
		return len(response.Topics[0].Partitions), nil
	})
	made.Call("DiscoveredBrokers", func() (any, error) { return len(producer.DiscoveredBrokers()), nil })
	made.Call("SeedBrokers", func() (any, error) { return len(producer.SeedBrokers()), nil })
	made.Call("Broker", func() (any, error) {
		_, err := producer.Broker(1).Request(limited(), kmsg.NewPtrApiVersionsRequest())
		return calls.Done, err
	})
}

func transact(made *calls.Calls) {
	options := []kgo.Opt{kgo.TransactionalID("franz-transactions"), kgo.TransactionTimeout(40 * time.Second)}
	producer := client(options...)
	defer producer.Close()
	send := func(value string) error { return producer.ProduceSync(limited(), record(target, 0, value)).FirstErr() }
	begin := func() error { return producer.BeginTransaction() }
	end := func(how kgo.TransactionEndTry) error { return producer.EndTransaction(limited(), how) }

	made.Do("BeginTransaction", begin)
	calls.Must(send("committed"))
	made.Do("EndTransaction/commit", func() error { return end(kgo.TryCommit) })
	calls.Must(begin())
	calls.Must(send("aborted"))
	made.Do("EndTransaction/abort", func() error { return end(kgo.TryAbort) })
	calls.Must(begin())
	made.Do("EndTransaction/empty", func() error { return end(kgo.TryCommit) })
	calls.Must(begin())
	calls.Must(send("first of two"))
	made.Do("EndAndBeginTransaction", func() error {
		return producer.EndAndBeginTransaction(limited(), kgo.EndBeginTxnSafe, kgo.TryCommit,
			func(_ context.Context, err error) error { return err })
	})
	calls.Must(send("second of two"))
	calls.Must(end(kgo.TryCommit))
	calls.Must(begin())
	made.Do("AbortBufferedRecords", func() error {
		for range 5 {
			producer.Produce(limited(), record(target, 0, "dropped"), nil)
		}
		return errors.Join(producer.AbortBufferedRecords(limited()), end(kgo.TryAbort))
	})
	calls.Must(begin())
	calls.Must(send("of one that is fenced"))
	successor := client(options...)
	defer successor.Close()
	calls.Must(successor.BeginTransaction())
	calls.Must(successor.ProduceSync(limited(), record(target, 0, "successor")).FirstErr())
	made.Do("ProduceSync/fenced", func() error { return send("late") })
	made.Do("EndTransaction/fenced", func() error { return end(kgo.TryCommit) })
	calls.Must(successor.EndTransaction(limited(), kgo.TryCommit))
}

// Nothing is the result of a call that ought to fail.
const Nothing = "no error"

func offsets(results kgo.ProduceResults) []int64 {
	found := []int64{}
	for _, one := range results {
		found = append(found, one.Record.Offset)
	}
	return found
}
