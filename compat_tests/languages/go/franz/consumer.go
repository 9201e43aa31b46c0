package main

import (
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kqueue/languages/calls"
)

type (
	partitions = map[string]map[int32]kgo.Offset
	positions  = map[string]map[int32]kgo.EpochOffset
)

var start = kgo.NewOffset().AtStart()

func at(topic string, partition int32, offset int64) positions {
	return positions{topic: {partition: {Epoch: -1, Offset: offset}}}
}

// consume makes the calls of a consumer that belongs to no group.
func consume(made *calls.Calls) {
	committed := kgo.FetchIsolationLevel(kgo.ReadCommitted())
	consumer := client(kgo.ConsumePartitions(partitions{target: {0: start}}), committed, kgo.ConsumeResetOffset(start))
	defer consumer.Close()
	made.Call("PollFetches/committed", func() (any, error) { return take(4, consumer.PollFetches) })
	made.Call("PollFetches/uncommitted", func() (any, error) {
		dirty := client(kgo.ConsumePartitions(partitions{target: {0: start}}))
		defer dirty.Close()
		return take(6, dirty.PollFetches)
	})
	made.Call("AddConsumePartitions", func() (any, error) {
		consumer.AddConsumePartitions(partitions{source: {1: start}})
		return take(2, consumer.PollFetches)
	})
	made.Call("RemoveConsumePartitions", func() (any, error) {
		consumer.RemoveConsumePartitions(map[string][]int32{source: {1}})
		topics := consumer.GetConsumeTopics()
		slices.Sort(topics)
		return topics, nil
	})
	made.Call("SetOffsets", func() (any, error) {
		consumer.SetOffsets(at(target, 0, 0))
		return take(4, consumer.PollFetches)
	})
	made.Call("AddConsumeTopics", func() (any, error) {
		consumer.AddConsumeTopics(source)
		return take(4, consumer.PollFetches)
	})
	paused(made, consumer)
	made.Call("BufferedFetchRecords", func() (any, error) { return consumer.BufferedFetchRecords(), nil })
	made.Call("BufferedFetchBytes", func() (any, error) { return consumer.BufferedFetchBytes(), nil })
	made.Do("PurgeTopicsFromConsuming", func() error { consumer.PurgeTopicsFromConsuming(source); return nil })
}

func paused(made *calls.Calls, consumer *kgo.Client) {
	empty := func() (any, error) {
		calls.Must(client().ProduceSync(limited(), record(source, 0, "while paused")).FirstErr())
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		return len(consumer.PollFetches(ctx).Records()), nil
	}
	made.Call("PauseFetchTopics", func() (any, error) { return consumer.PauseFetchTopics(source), nil })
	made.Call("PollFetches/paused topic", empty)
	made.Call("ResumeFetchTopics", func() (any, error) {
		consumer.ResumeFetchTopics(source)
		return take(1, consumer.PollFetches)
	})
	one := map[string][]int32{source: {0}}
	made.Call("PauseFetchPartitions", func() (any, error) { return consumer.PauseFetchPartitions(one)[source], nil })
	made.Call("PollFetches/paused partition", empty)
	made.Call("ResumeFetchPartitions", func() (any, error) {
		consumer.ResumeFetchPartitions(one)
		return take(1, consumer.PollFetches)
	})
}

// consumeAsGroup makes the calls of members of a group: join, commit, share, leave.
func consumeAsGroup(made *calls.Calls) {
	assigned := make(chan []int32, 100)
	options := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(source), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(start),
		kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(100 * time.Millisecond),
	}
	first := client(append(options, kgo.OnPartitionsAssigned(
		func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			assigned <- slices.Clone(given[source])
		}))...)
	made.Call("PollRecords", func() (any, error) {
		return take(6, func(ctx context.Context) kgo.Fetches { return first.PollRecords(ctx, 2) })
	})
	made.Call("GroupMetadata", func() (any, error) {
		member, generation := first.GroupMetadata()
		return []any{member != "", generation}, nil
	})
	made.Call("PollRecords/assigned", func() (any, error) { return sorted(<-assigned), nil })
	commit(made, first)
	second := client(options...)
	made.Call("PollFetches/second member", func() (any, error) {
		go second.PollFetches(limited())
		return len(<-assigned), nil
	})
	made.Do("ForceRebalance", func() error { second.ForceRebalance(); <-assigned; return nil })
	made.Do("LeaveGroupContext", func() error { return second.LeaveGroupContext(limited()) })
	made.Call("PollFetches/alone again", func() (any, error) { return sorted(<-assigned), nil })
	made.Do("LeaveGroup", func() error { first.LeaveGroup(); return nil })
	second.Close()
	first.Close()
}

func commit(made *calls.Calls, consumer *kgo.Client) {
	var failed error
	seen := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
		failed = err
	}
	committed := func(call func() error) func() (any, error) {
		return func() (any, error) {
			err := errors.Join(call(), failed)
			return offsetsOf(consumer.CommittedOffsets()), err
		}
	}
	newest := &kgo.Record{Topic: source, Partition: 0, Offset: 1, LeaderEpoch: -1}
	made.Call("UncommittedOffsets", func() (any, error) { return offsetsOf(consumer.UncommittedOffsets()), nil })
	made.Call("CommitRecords", committed(func() error { return consumer.CommitRecords(limited(), newest) }))
	made.Call("CommitOffsetsSync", committed(func() error {
		consumer.CommitOffsetsSync(limited(), at(source, 0, 1), seen)
		return nil
	}))
	made.Call("CommitOffsets", committed(func() error {
		done := make(chan struct{})
		consumer.CommitOffsets(limited(), at(source, 1, 1), func(
			of *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			seen(of, request, response, err)
			close(done)
		})
		<-done
		return nil
	}))
	made.Call("CommitUncommittedOffsets", committed(func() error { return consumer.CommitUncommittedOffsets(limited()) }))
	made.Call("CommittedOffsets", committed(func() error { return nil }))
}

// marks makes the calls of a consumer that commits what the program marks.
func marks(made *calls.Calls) {
	consumer := client(
		kgo.ConsumerGroup("franz-marks"), kgo.ConsumeTopics(source), kgo.ConsumeResetOffset(start),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(time.Hour),
	)
	defer consumer.Close()
	_, err := take(6, consumer.PollFetches)
	calls.Must(err)
	made.Call("MarkCommitRecords", func() (any, error) {
		consumer.MarkCommitRecords(&kgo.Record{Topic: source, Partition: 0, Offset: 1, LeaderEpoch: -1})
		return offsetsOf(consumer.MarkedOffsets()), nil
	})
	made.Call("CommitMarkedOffsets", func() (any, error) {
		err := consumer.CommitMarkedOffsets(limited())
		return offsetsOf(consumer.CommittedOffsets()), err
	})
	made.Do("MarkCommitOffsets", func() error { consumer.MarkCommitOffsets(at(source, 1, 2)); return nil })
	made.Call("MarkedOffsets", func() (any, error) { return offsetsOf(consumer.MarkedOffsets()), nil })
}

func offsetsOf(found positions) map[int32]int64 {
	offsets := map[int32]int64{}
	for partition, one := range found[source] {
		offsets[partition] = one.Offset
	}
	return offsets
}

func sorted(found []int32) []int32 {
	sort.Slice(found, func(a, b int) bool { return found[a] < found[b] })
	return found
}

// consumeAndProduce copies a topic, each batch with the offsets of what it was made of in one transaction.
func consumeAndProduce(made *calls.Calls) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID("franz-session"), kgo.ConsumerGroup(sessions),
		kgo.ConsumeTopics(source), kgo.ConsumeResetOffset(start), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequireStableFetchOffsets(), kgo.FetchMaxWait(100*time.Millisecond),
	)
	calls.Must(err)
	end := func(how kgo.TransactionEndTry) func() (any, error) {
		return func() (any, error) { return session.End(limited(), how) }
	}
	made.Do("Begin", session.Begin)
	made.Call("PollFetches", func() (any, error) { return take(6, session.PollFetches) })
	made.Call("ProduceSync", func() (any, error) {
		return calls.Done, session.ProduceSync(limited(), record(copies, 0, "is aborted")).FirstErr()
	})
	made.Call("End/abort", end(kgo.TryAbort))
	calls.Must(session.Begin())
	made.Call("PollRecords", func() (any, error) {
		return take(6, func(ctx context.Context) kgo.Fetches { return session.PollRecords(ctx, 100) })
	})
	for name, call := range map[string]func(context.Context, *kgo.Record, func(*kgo.Record, error)){
		"Produce": session.Produce, "TryProduce": session.TryProduce,
	} {
		made.Do(name, func() error {
			promised := make(chan error, 1)
			call(limited(), record(copies, 0, name), func(_ *kgo.Record, err error) { promised <- err })
			return <-promised
		})
	}
	made.Call("End", end(kgo.TryCommit))
	made.Do("Close", func() error { session.Close(); return nil })
	made.Call("End/read", func() (any, error) {
		reader := client(kgo.ConsumePartitions(partitions{copies: {0: start}}), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		defer reader.Close()
		return take(2, reader.PollFetches)
	})
}
