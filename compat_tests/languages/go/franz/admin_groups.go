package main

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kqueue/languages/calls"
)

const managed = "franz-managed"

func (made Admin) groups() {
	consumer := client(
		kgo.ConsumerGroup(managed), kgo.InstanceID("franz-instance"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(start), kgo.Balancers(kgo.RangeBalancer()),
	)
	_, err := take(6, consumer.PollFetches)
	calls.Must(err)
	calls.Must(consumer.CommitUncommittedOffsets(limited()))
	made.Call("DescribeGroups", func() (any, error) {
		found, err := made.client.DescribeGroups(limited(), managed)
		one := found[managed]
		if err == nil {
			err = one.Err
		}
		return []any{one.State, one.ProtocolType, one.Protocol, one.Coordinator.NodeID, len(one.Members),
			*one.Members[0].InstanceID, len(one.AssignedPartitions()[topic])}, err
	})
	made.Call("Lag", func() (any, error) {
		found, err := made.client.Lag(limited(), managed)
		if err == nil {
			err = found.Error()
		}
		return found[managed].Lag.Total(), err
	})
	made.Call("DeleteGroup/in use", func() (any, error) {
		_, err := made.client.DeleteGroup(limited(), managed)
		return Nothing, err
	})
	made.Call("DeleteOffsets/subscribed", made.deleteOffsets(0))
	made.Call("CommitAllOffsets/in use", func() (any, error) {
		return Nothing, made.client.CommitAllOffsets(limited(), managed, offsetAt(1))
	})
	leave := func() (any, error) {
		found, err := made.client.LeaveGroup(limited(), kadm.LeaveGroup(managed).InstanceIDs("franz-instance"))
		if err == nil {
			err = found.Error()
		}
		return len(found), err
	}
	made.Call("LeaveGroup", leave)
	made.Call("LeaveGroup/unknown", leave)
	consumer.Close()
	made.Until("ListGroups", "[consumer Empty]", func() (any, error) {
		found, err := made.client.ListGroups(limited())
		return []string{found[managed].ProtocolType, found[managed].State}, err
	})
	made.Call("ListGroups/state", func() (any, error) {
		found, err := made.client.ListGroups(limited(), "Stable")
		return slices.Contains(found.Groups(), managed), err
	})
	made.Call("ListGroupsByType", func() (any, error) {
		found, err := made.client.ListGroupsByType(limited(), []string{"classic"})
		return slices.Contains(found.Groups(), managed), err
	})
	made.offsets()
	made.Call("DeleteGroup", func() (any, error) {
		_, err := made.client.DeleteGroup(limited(), managed)
		return calls.Done, err
	})
	made.Call("DeleteGroups/unknown", all(func() (kadm.DeleteGroupResponses, error) {
		return made.client.DeleteGroups(limited(), managed)
	}))
	made.Call("DescribeGroups/unknown", func() (any, error) {
		found, err := made.client.DescribeGroups(limited(), managed)
		if err == nil {
			err = found[managed].Err
		}
		return found[managed].State, err
	})
}

func offsetAt(offset int64) kadm.Offsets {
	wanted := kadm.Offsets{}
	wanted.Add(kadm.Offset{Topic: topic, Partition: 0, At: offset, LeaderEpoch: -1, Metadata: "moved"})
	return wanted
}

func (made Admin) deleteOffsets(partition int32) func() (any, error) {
	return func() (any, error) {
		found, err := made.client.DeleteOffsets(limited(), managed, kadm.TopicsSet{topic: {partition: {}}})
		if err == nil {
			err = found.Error()
		}
		return len(found[topic]), err
	}
}

func (made Admin) offsets() {
	fetched := func(found kadm.OffsetResponses, err error) (any, error) {
		if err == nil {
			err = found.Error()
		}
		one, _ := found.Lookup(topic, 0)
		return []any{len(found[topic]), one.At, one.Metadata == "moved"}, err
	}
	made.Call("FetchOffsets", func() (any, error) { return fetched(made.client.FetchOffsets(limited(), managed)) })
	made.Call("CommitOffsets", func() (any, error) {
		found, err := made.client.CommitOffsets(limited(), managed, offsetAt(7))
		if err == nil {
			err = found.Error()
		}
		return len(found[topic]), err
	})
	made.Call("FetchOffsetsForTopics", func() (any, error) {
		return fetched(made.client.FetchOffsetsForTopics(limited(), managed, topic))
	})
	made.Do("CommitAllOffsets", func() error { return made.client.CommitAllOffsets(limited(), managed, offsetAt(8)) })
	made.Call("FetchManyOffsets", func() (any, error) {
		found := made.client.FetchManyOffsets(limited(), managed, group)
		if err := found.Error(); err != nil {
			return nil, err
		}
		one, _ := found[managed].Fetched.Lookup(topic, 0)
		return []any{len(found), one.At, len(found[group].Fetched[source])}, nil
	})
	topics, err := made.client.ListTopics(limited(), topic)
	calls.Must(err)
	id := topics[topic].ID
	wanted := kadm.OffsetsByID{}
	wanted.Add(kadm.Offset{TopicID: id, Partition: 0, At: 9, LeaderEpoch: -1})
	made.Call("CommitOffsetsByID", func() (any, error) {
		found, err := made.client.CommitOffsetsByID(limited(), managed, wanted)
		if err == nil {
			err = found.Error()
		}
		return len(found[id]), err
	})
	made.Do("CommitAllOffsetsByID", func() error { return made.client.CommitAllOffsetsByID(limited(), managed, wanted) })
	made.Call("CommitAllOffsetsByID/unknown topic", func() (any, error) {
		unknown := kadm.OffsetsByID{}
		unknown.Add(kadm.Offset{TopicID: kadm.TopicID{15: 7}, Partition: 0, At: 9, LeaderEpoch: -1})
		return Nothing, made.client.CommitAllOffsetsByID(limited(), managed, unknown)
	})
	made.Call("FetchOffsetsByID", func() (any, error) {
		found, err := made.client.FetchOffsetsByID(limited(), managed)
		if err == nil {
			err = found.Error()
		}
		one, _ := found.Lookup(id, 0)
		return one.At, err
	})
	made.Call("DeleteOffsets", made.deleteOffsets(0))
	made.Call("FetchOffsets/deleted", func() (any, error) {
		found, err := made.client.FetchOffsets(limited(), managed)
		_, there := found.Lookup(topic, 0)
		return there, err
	})
}

func (made Admin) transactions() {
	opened := open("franz-open", 40*time.Second)
	defer opened.Close()
	mine := func(found kadm.ListedTransactions, err error) (any, error) {
		return found["franz-open"].State, err
	}
	made.Call("ListTransactions", func() (any, error) {
		return mine(made.client.ListTransactions(limited(), nil, []string{"Ongoing"}))
	})
	made.Call("ListTransactions/other state", func() (any, error) {
		return mine(made.client.ListTransactions(limited(), nil, []string{"CompleteAbort"}))
	})
	made.Call("ListTransactionsByTxPattern", func() (any, error) {
		found, err := made.client.ListTransactionsByTxPattern(limited(), nil, nil, "franz-o.*")
		return found.TransactionalIDs(), err
	})
	made.Call("DescribeTransactions", func() (any, error) {
		found, err := made.client.DescribeTransactions(limited(), "franz-open")
		one := found["franz-open"]
		if err == nil {
			err = one.Err
		}
		return []any{one.State, one.TimeoutMillis, one.Coordinator, one.StartTimestamp > 0, len(one.Topics[topic])}, err
	})
	made.Call("DescribeTransactions/unknown", func() (any, error) {
		found, err := made.client.DescribeTransactions(limited(), "franz-unknown")
		if err == nil {
			err = found["franz-unknown"].Err
		}
		return Nothing, err
	})
	third := kadm.TopicsSet{topic: {2: {}}}
	var producer kadm.DescribedProducer
	made.Call("DescribeProducers", func() (any, error) {
		found, err := made.client.DescribeProducers(limited(), third)
		if err != nil {
			return nil, err
		}
		producer = found.SortedProducers()[0]
		return []any{producer.LastSequence, producer.CurrentTxnStartOffset, producer.Leader}, nil
	})
	stable := func() (any, error) {
		found, err := made.client.ListCommittedOffsets(limited(), topic)
		return found[topic][2].Offset, err
	}
	made.Call("ListCommittedOffsets/open", stable)
	made.Call("WriteTxnMarkers", func() (any, error) {
		found, err := made.client.WriteTxnMarkers(limited(), kadm.TxnMarkers{
			ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch, Topics: third})
		if err != nil {
			return nil, err
		}
		return calls.Done, found.SortedPartitions()[0].Err
	})
	made.Until("ListCommittedOffsets/aborted", 2, stable)
	calls.Must(opened.EndTransaction(limited(), kgo.TryAbort))
}

func (made Admin) deletions() {
	made.Call("DeleteTopic", func() (any, error) {
		found, err := made.client.DeleteTopic(limited(), topic)
		return found.Topic, err
	})
	made.Call("DeleteTopics", all(func() (kadm.DeleteTopicResponses, error) {
		return made.client.DeleteTopics(limited(), "franz-other", "franz-another")
	}))
	made.Call("DeleteTopics/unknown", all(func() (kadm.DeleteTopicResponses, error) {
		return made.client.DeleteTopics(limited(), nowhere)
	}))
	made.Until("ListTopics/deleted", false, func() (any, error) {
		found, err := made.client.ListTopics(limited())
		return found.Has(topic), err
	})
}
