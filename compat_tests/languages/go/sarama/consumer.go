package main

import (
	"context"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"kqueue/languages/calls"
)

func useClient(client sarama.Client) {
	made := calls.New("sarama.Client")
	id := func(broker *sarama.Broker, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		return broker.ID(), nil
	}
	made.Do("RefreshMetadata", func() error { return client.RefreshMetadata(source) })
	made.Call("RefreshMetadata/unknown", func() (any, error) { return Nothing, client.RefreshMetadata(nowhere) })
	made.Call("Topics", func() (any, error) {
		found, err := client.Topics()
		return slices.Contains(found, source), err
	})
	made.Call("Partitions", func() (any, error) { return client.Partitions(source) })
	made.Call("WritablePartitions", func() (any, error) { return client.WritablePartitions(source) })
	made.Call("PartitionNotReadable", func() (any, error) { return client.PartitionNotReadable(source, 0), nil })
	made.Call("Replicas", func() (any, error) { return client.Replicas(source, 0) })
	made.Call("InSyncReplicas", func() (any, error) { return client.InSyncReplicas(source, 0) })
	made.Call("OfflineReplicas", func() (any, error) { return client.OfflineReplicas(source, 0) })
	made.Call("Leader", func() (any, error) { return id(client.Leader(source, 0)) })
	made.Call("LeaderAndEpoch", func() (any, error) {
		broker, epoch, err := client.LeaderAndEpoch(source, 0)
		return []any{broker.ID(), epoch >= 0}, err
	})
	made.Call("Broker", func() (any, error) { return id(client.Broker(1)) })
	made.Call("Brokers", func() (any, error) { return len(client.Brokers()), nil })
	made.Call("Controller", func() (any, error) { return id(client.Controller()) })
	made.Call("RefreshController", func() (any, error) { return id(client.RefreshController()) })
	made.Do("RefreshCoordinator", func() error { return client.RefreshCoordinator("sarama-any") })
	made.Call("Coordinator", func() (any, error) { return id(client.Coordinator("sarama-any")) })
	made.Do("RefreshTransactionCoordinator", func() error { return client.RefreshTransactionCoordinator("sarama-any") })
	made.Call("TransactionCoordinator", func() (any, error) { return id(client.TransactionCoordinator("sarama-any")) })
	made.Call("GetOffset/oldest", func() (any, error) { return client.GetOffset(source, 0, sarama.OffsetOldest) })
	made.Call("GetOffset/newest", func() (any, error) { return client.GetOffset(source, 0, sarama.OffsetNewest) })
	made.Call("GetOffset/time", func() (any, error) { return client.GetOffset(source, 0, 1_000) })
	made.Call("InitProducerID", func() (any, error) {
		found, err := client.InitProducerID()
		return []any{found.ProducerID >= 0, found.ProducerEpoch}, failure(found.Err, err)
	})
	made.Do("RefreshBrokers", func() error { return client.RefreshBrokers(bootstrap) })
	made.Print(class[sarama.Client](), map[string]string{
		"Close": calls.NoRequest, "Closed": calls.NoRequest, "Config": calls.NoRequest, "LeastLoadedBroker": calls.NoRequest,
	})
}

// consume makes the calls of a consumer that belongs to no group.
func consume(client sarama.Client) {
	made := calls.New("sarama.Consumer")
	consumer, err := sarama.NewConsumerFromClient(client)
	calls.Must(err)
	made.Call("Topics", func() (any, error) {
		found, err := consumer.Topics()
		return slices.Contains(found, target), err
	})
	made.Call("Partitions", func() (any, error) { return consumer.Partitions(target) })
	var reader sarama.PartitionConsumer
	made.Call("ConsumePartition", func() (any, error) {
		reader, err = consumer.ConsumePartition(target, 0, sarama.OffsetOldest)
		return take(3, reader.Messages()), err
	})
	made.Call("ConsumePartition/out of range", func() (any, error) {
		_, err := consumer.ConsumePartition(target, 1, 1_000)
		return Nothing, err
	})
	made.Call("ConsumePartition/committed", func() (any, error) {
		committed := settings()
		committed.Consumer.IsolationLevel = sarama.ReadCommitted
		other, err := sarama.NewConsumer(bootstrap, committed)
		calls.Must(err)
		defer other.Close()
		reader, err := other.ConsumePartition(target, 0, sarama.OffsetOldest)
		calls.Must(err)
		defer reader.Close()
		return take(2, reader.Messages()), nil
	})
	made.Call("HighWaterMarks", func() (any, error) { return consumer.HighWaterMarks()[target][0], nil })
	made.Do("PauseAll", func() error { consumer.PauseAll(); return nil })
	made.Do("ResumeAll", func() error { consumer.ResumeAll(); return nil })
	made.Do("Pause", func() error { consumer.Pause(map[string][]int32{target: {0}}); return nil })
	made.Do("Resume", func() error { consumer.Resume(map[string][]int32{target: {0}}); return nil })
	readPartition(reader)
	made.Do("Close", consumer.Close)
	made.Print(class[sarama.Consumer](), nil)
}

func readPartition(reader sarama.PartitionConsumer) {
	made := calls.New("sarama.PartitionConsumer")
	producer, err := sarama.NewSyncProducer(bootstrap, idempotent())
	calls.Must(err)
	defer producer.Close()
	made.Call("HighWaterMarkOffset", func() (any, error) { return reader.HighWaterMarkOffset(), nil })
	made.Do("Pause", func() error { reader.Pause(); return nil })
	made.Call("IsPaused", func() (any, error) { return reader.IsPaused(), nil })
	made.Do("Resume", func() error { reader.Resume(); return nil })
	made.Call("Messages", func() (any, error) {
		_, _, err := producer.SendMessage(message(target, 0, "one more"))
		return take(1, reader.Messages()), err
	})
	made.Call("Errors", func() (any, error) { return len(reader.Errors()), nil })
	made.Do("Close", reader.Close)
	made.Print(class[sarama.PartitionConsumer](), map[string]string{"AsyncClose": calls.NoRequest})
}

// manageOffsets commits offsets for a group without members.
func manageOffsets() {
	made := calls.New("sarama.OffsetManager")
	config := settings()
	config.Consumer.Offsets.AutoCommit.Enable = true // without it a partition's manager cannot be closed
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	client, err := sarama.NewClient(bootstrap, config)
	calls.Must(err)
	defer client.Close()
	manager, err := sarama.NewOffsetManagerFromClient("sarama-managed-offsets", client)
	calls.Must(err)
	var partition sarama.PartitionOffsetManager
	made.Do("ManagePartition", func() (err error) { partition, err = manager.ManagePartition(source, 0); return })
	of := calls.New("sarama.PartitionOffsetManager")
	next := func() (any, error) {
		offset, metadata := partition.NextOffset()
		return []any{offset, metadata}, nil
	}
	of.Call("NextOffset/none", next)
	of.Do("MarkOffset", func() error { partition.MarkOffset(2, "marked"); return nil })
	made.Do("Commit", func() error { manager.Commit(); return nil })
	of.Do("ResetOffset", func() error { partition.ResetOffset(1, "reset"); return nil })
	manager.Commit()
	of.Call("Errors", func() (any, error) { return len(partition.Errors()), nil })
	of.Do("Close", partition.Close)
	made.Do("Close", manager.Close)
	again, err := sarama.NewOffsetManagerFromClient("sarama-managed-offsets", client)
	calls.Must(err)
	partition, err = again.ManagePartition(source, 0)
	calls.Must(err)
	of.Call("NextOffset", next)
	of.Do("AsyncClose", func() error { partition.AsyncClose(); return nil })
	calls.Must(again.Close())
	made.Print(class[sarama.OffsetManager](), nil)
	of.Print(class[sarama.PartitionOffsetManager](), nil)
}

// member makes the calls of a session in its first generation; others join later.
type member struct {
	made     *calls.Calls
	producer sarama.SyncProducer
	done     chan struct{}
}

func (one member) Setup(session sarama.ConsumerGroupSession) error {
	if one.isDone() {
		return nil
	}
	one.made.Call("Claims", func() (any, error) { return session.Claims()[source], nil })
	one.made.Call("MemberID", func() (any, error) { return session.MemberID() != "", nil })
	one.made.Call("GenerationID", func() (any, error) { return session.GenerationID(), nil })
	one.made.Call("Context", func() (any, error) { return calls.Done, session.Context().Err() })
	return nil
}

func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (one member) isDone() bool {
	select {
	case <-one.done:
		return true
	default:
		return false
	}
}

func (one member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	if claim.Partition() == 0 && !one.isDone() {
		one.copy(session, <-claim.Messages())
		close(one.done)
	}
	<-session.Context().Done()
	return nil
}

// copy commits offsets, then copies a message in one transaction with its offset.
func (one member) copy(session sarama.ConsumerGroupSession, read *sarama.ConsumerMessage) {
	one.made.Do("MarkMessage", func() error { session.MarkMessage(read, "first"); return nil })
	one.made.Do("Commit", func() error { session.Commit(); return nil })
	one.made.Do("MarkOffset", func() error { session.MarkOffset(source, 0, 2, "second"); return nil })
	session.Commit()
	one.made.Do("ResetOffset", func() error { session.ResetOffset(source, 0, 0, "back"); return nil })
	session.Commit()
	one.made.Call("consume-transform-produce", func() (any, error) {
		calls.Must(one.producer.BeginTxn())
		_, _, err := one.producer.SendMessage(message(copies, 0, "copy of "+string(read.Value)))
		calls.Must(err)
		metadata := sarama.NewConsumerGroupMetadataFromSession(session, "sarama-group", nil)
		calls.Must(one.producer.AddMessageToTxnWithGroupMetadata(read, metadata, nil))
		return calls.Done, one.producer.CommitTxn()
	})
}

func consumeAsGroup() {
	made := calls.New("sarama.ConsumerGroup")
	group, err := sarama.NewConsumerGroup(bootstrap, "sarama-group", settings())
	calls.Must(err)
	producer, err := sarama.NewSyncProducer(bootstrap, transactional("sarama-copier"))
	calls.Must(err)
	defer producer.Close()
	one := member{calls.New("sarama.ConsumerGroupSession"), producer, make(chan struct{})}
	ctx, leave := context.WithTimeout(context.Background(), callMax)
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil { // each rebalance ends a session
			err = group.Consume(ctx, []string{source}, one)
		}
		ended <- err
	}()
	select {
	case <-one.done:
	case <-ctx.Done():
	}
	made.Do("PauseAll", func() error { group.PauseAll(); return nil })
	made.Do("ResumeAll", func() error { group.ResumeAll(); return nil })
	made.Do("Pause", func() error { group.Pause(map[string][]int32{source: {0}}); return nil })
	made.Do("Resume", func() error { group.Resume(map[string][]int32{source: {0}}); return nil })
	shareGroup(made)
	leave()
	made.Do("Consume", func() error { return <-ended })
	made.Call("Errors", func() (any, error) { return len(group.Errors()), nil })
	made.Do("Close", group.Close)
	one.made.Print(class[sarama.ConsumerGroupSession](), nil)
	made.Print(class[sarama.ConsumerGroup](), nil)
	committed(made)
}

// shareGroup lets another member join the group and leave it again.
func shareGroup(made *calls.Calls) {
	second, err := sarama.NewConsumerGroup(bootstrap, "sarama-group", settings())
	calls.Must(err)
	ctx, leave := context.WithTimeout(context.Background(), callMax)
	claimed := joined{make(chan int, 1)}
	go second.Consume(ctx, []string{source}, claimed)
	made.Call("Consume/second member", func() (any, error) {
		select {
		case count := <-claimed.partitions:
			return count, nil
		case <-time.After(callMax):
			return nil, context.DeadlineExceeded
		}
	})
	leave()
	calls.Must(second.Close())
}

// joined is a member that does no more than to belong to the group.
type joined struct{ partitions chan int }

func (one joined) Setup(session sarama.ConsumerGroupSession) error {
	one.partitions <- len(session.Claims()[source])
	return nil
}

func (joined) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (joined) ConsumeClaim(session sarama.ConsumerGroupSession, _ sarama.ConsumerGroupClaim) error {
	<-session.Context().Done()
	return nil
}

func committed(made *calls.Calls) {
	config := settings()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer(bootstrap, config)
	calls.Must(err)
	defer consumer.Close()
	made.Call("Consume/copies", func() (any, error) {
		reader, err := consumer.ConsumePartition(copies, 0, sarama.OffsetOldest)
		calls.Must(err)
		defer reader.Close()
		return take(1, reader.Messages()), nil
	})
}
