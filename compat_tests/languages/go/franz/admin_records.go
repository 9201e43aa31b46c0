package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var first = kadm.TopicsSet{topic: {0: {}}}

func (made Admin) records() {
	producer := client()
	defer producer.Close()
	for number := range int64(10) {
		sent := record(topic, 0, "value")
		sent.Timestamp = time.UnixMilli(1_000 + number)
		if err := producer.ProduceSync(limited(), sent).FirstErr(); err != nil {
			panic(err)
		}
	}
	for name, list := range map[string]func(context.Context, ...string) (kadm.ListedOffsets, error){
		"ListStartOffsets":         made.client.ListStartOffsets,
		"ListEndOffsets":           made.client.ListEndOffsets,
		"ListCommittedOffsets":     made.client.ListCommittedOffsets,
		"ListMaxTimestampOffsets":  made.client.ListMaxTimestampOffsets,
		"ListLocalLogStartOffsets": made.client.ListLocalLogStartOffsets,
		"ListLatestRemoteOffsets":  made.client.ListLatestRemoteOffsets,
		"ListOffsetsAfterMilli": func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return made.client.ListOffsetsAfterMilli(ctx, 1_004, topics...)
		},
	} {
		made.Call(name, func() (any, error) { return listed(list(limited(), topic)) })
	}
	made.Call("ListStartOffsets/unknown", func() (any, error) {
		found, err := made.client.ListStartOffsets(limited(), nowhere)
		if err == nil {
			err = found.Error()
		}
		return Nothing, err
	})
	remove := func(before int64) func() (any, error) {
		return func() (any, error) {
			wanted := kadm.Offsets{}
			wanted.AddOffset(topic, 0, before, -1)
			found, err := made.client.DeleteRecords(limited(), wanted)
			if err == nil {
				err = found.Error()
			}
			return found[topic][0].LowWatermark, err
		}
	}
	made.Call("DeleteRecords", remove(4))
	made.Call("DeleteRecords/beyond the end", remove(40))
	made.Call("ListStartOffsets/deleted", func() (any, error) { return listed(made.client.ListStartOffsets(limited(), topic)) })
	made.Call("OffsetForLeaderEpoch", func() (any, error) {
		wanted := kadm.OffsetForLeaderEpochRequest{}
		wanted.Add(topic, 0, 0)
		found, err := made.client.OffsetForLeaderEpoch(limited(), wanted)
		one := found[topic][0]
		if err == nil {
			err = one.Err
		}
		return []any{one.LeaderEpoch, one.EndOffset}, err
	})
}

func listed(found kadm.ListedOffsets, err error) (any, error) {
	if err == nil {
		err = found.Error()
	}
	return found[topic][0].Offset, err
}

func (made Admin) folders() {
	describe := func(found kadm.DescribedLogDirs, err error) (any, error) {
		if err == nil {
			err = found.Error()
		}
		partition, there := found.LookupPartition(topic, 0)
		return []any{len(found), there, partition.Size > 0, partition.OffsetLag, partition.IsFuture}, err
	}
	made.Call("DescribeBrokerLogDirs", func() (any, error) {
		return describe(made.client.DescribeBrokerLogDirs(limited(), 1, first))
	})
	made.Call("DescribeAllLogDirs", func() (any, error) {
		found, err := made.client.DescribeAllLogDirs(limited(), first)
		return describe(found[1], err)
	})
	made.Call("AlterAllReplicaLogDirs", func() (any, error) {
		found, err := made.client.DescribeAllLogDirs(limited(), first)
		if err != nil {
			return nil, err
		}
		partition, _ := found[1].LookupPartition(topic, 0)
		moved, err := made.client.AlterAllReplicaLogDirs(limited(), kadm.AlterReplicaLogDirsReq{partition.Dir: first})
		if err == nil {
			err = moved.Sorted()[0].Err
		}
		return len(moved), err
	})
	made.Call("AlterBrokerReplicaLogDirs/unknown", func() (any, error) {
		wanted := kadm.AlterReplicaLogDirsReq{"/nowhere": first}
		moved, err := made.client.AlterBrokerReplicaLogDirs(limited(), 1, wanted)
		if err == nil {
			err = moved.Sorted()[0].Err
		}
		return Nothing, err
	})
}

func (made Admin) replicas() {
	elect := func(how kadm.ElectLeadersHow, partitions kadm.TopicsSet) func() (any, error) {
		return func() (any, error) {
			found, err := made.client.ElectLeaders(limited(), how, partitions)
			for _, one := range found {
				if err == nil {
					err = one[0].Err
				}
			}
			return Nothing, err
		}
	}
	made.Call("ElectLeaders", elect(kadm.ElectPreferredReplica, first))
	made.Call("ElectLeaders/unclean", elect(kadm.ElectLiveReplica, first))
	made.Call("ElectLeaders/unknown", elect(kadm.ElectPreferredReplica, kadm.TopicsSet{nowhere: {0: {}}}))
	assign := func(name string, brokers []int32) func() (any, error) {
		return func() (any, error) {
			wanted := kadm.AlterPartitionAssignmentsReq{name: {0: brokers}}
			found, err := made.client.AlterPartitionAssignments(limited(), wanted)
			if err == nil {
				err = found.Error()
			}
			return len(found), err
		}
	}
	made.Call("AlterPartitionAssignments", assign(topic, []int32{1}))
	made.Call("AlterPartitionAssignments/cancel", assign(topic, nil))
	made.Call("AlterPartitionAssignments/unknown broker", assign(topic, []int32{2}))
	made.Call("AlterPartitionAssignments/unknown topic", assign(nowhere, []int32{1}))
	made.Call("ListPartitionReassignments", func() (any, error) {
		found, err := made.client.ListPartitionReassignments(limited(), first)
		return len(found), err
	})
	made.Call("ListPartitionReassignments/all", func() (any, error) {
		found, err := made.client.ListPartitionReassignments(limited(), nil)
		return len(found), err
	})
}

func open(id string, timeout time.Duration) *kgo.Client {
	producer := client(kgo.TransactionalID(id), kgo.TransactionTimeout(timeout))
	if err := producer.BeginTransaction(); err != nil {
		panic(err)
	}
	if err := producer.ProduceSync(limited(), record(topic, 2, id)).FirstErr(); err != nil {
		panic(err)
	}
	return producer
}
