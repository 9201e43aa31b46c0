package main

import (
	"encoding/base64"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kqueue/languages/calls"
)

const (
	queue  = "franz-queue"
	share  = "franz-share"
	modern = "franz-modern"
)

// acknowledge makes the calls of a member of a share group.
func acknowledge(made *calls.Calls) {
	fill(3)
	member := shareMember()
	defer member.Close()
	made.Call("MarkAcks/release", func() (any, error) { return mark(member, 3, kgo.AckRelease) })
	made.Do("FlushAcks", func() error { return member.FlushAcks(limited()) })
	made.Call("MarkAcks", func() (any, error) { return mark(member, 3, kgo.AckAccept) })
	made.Do("FlushAcks/again", func() error { return member.FlushAcks(limited()) })
}

// fill appends records to the queue, whose share group begins at the first one.
func fill(count int) {
	producer := client()
	defer producer.Close()
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "share.auto.offset.reset", kadm.StringPtr("earliest")
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, share
	resource.Configs = append(resource.Configs, config)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	_, err := request.RequestWith(limited(), producer)
	calls.Must(err)
	for number := range count {
		calls.Must(producer.ProduceSync(limited(), record(queue, 0, fmt.Sprint(number))).FirstErr())
	}
}

func shareMember() *kgo.Client {
	return client(kgo.ShareGroup(share), kgo.ConsumeTopics(queue))
}

// mark polls until it has as many records, acknowledges each, and returns how often they were delivered.
func mark(member *kgo.Client, count int, status kgo.AckStatus) ([]int32, error) {
	ctx := limited()
	deliveries := []int32{}
	for len(deliveries) < count {
		fetches := member.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return deliveries, err
		}
		member.MarkAcks(status, fetches.Records()...)
		fetches.EachRecord(func(found *kgo.Record) { deliveries = append(deliveries, found.DeliveryCount()) })
	}
	return deliveries, nil
}

// shareGroups describes and changes a share group that has a member, and then none.
func (made Admin) shareGroups() {
	fill(2)
	member := shareMember()
	_, err := mark(member, 2, kgo.AckAccept)
	calls.Must(err)
	calls.Must(member.FlushAcks(limited()))
	made.Call("DescribeShareGroups", func() (any, error) {
		found, err := made.client.DescribeShareGroups(limited(), share)
		one := found[share]
		if err == nil {
			err = one.Err
		}
		return []any{one.GroupState, one.Assignor, one.Coordinator.NodeID, len(one.Members), len(one.AssignedPartitions()[queue])}, err
	})
	alter := func() (any, error) {
		wanted := kadm.Offsets{}
		wanted.Add(kadm.Offset{Topic: queue, Partition: 0, At: 1, LeaderEpoch: -1})
		found, err := made.client.AlterShareGroupOffsets(limited(), share, wanted)
		if err == nil {
			err = found.Error()
		}
		return len(found), err
	}
	made.Call("AlterShareGroupOffsets/in use", alter)
	member.Close()
	described := func() (kadm.ShareOffset, error) {
		found, err := made.client.DescribeShareGroupOffsets(limited(), share)
		if err == nil {
			err = found[share].Err
		}
		one, _ := found[share].Offsets.Lookup(queue, 0)
		return one, err
	}
	// Kafka persists the start offset one write later: the lag alone is told
	made.Until("DescribeShareGroupOffsets", 0, func() (any, error) {
		one, err := described()
		return one.Lag, err
	})
	made.Call("AlterShareGroupOffsets", alter)
	made.Until("DescribeShareGroupOffsets/altered", "[1 4]", func() (any, error) {
		one, err := described()
		return []int64{one.StartOffset, one.Lag}, err
	})
	topics, err := made.client.ListTopics(limited(), queue)
	calls.Must(err)
	id := topics[queue].ID
	key := fmt.Sprintf("%s:%s:0", share, base64.RawURLEncoding.EncodeToString(id[:]))
	made.Call("FindShareCoordinators", func() (any, error) {
		found := made.client.FindShareCoordinators(limited(), key)
		return found[key].NodeID, found.Error()
	})
	made.Call("DeleteShareGroupOffsets", func() (any, error) {
		found, err := made.client.DeleteShareGroupOffsets(limited(), share, queue)
		if err == nil {
			err = found.Error()
		}
		return len(found), err
	})
	made.Call("DescribeShareGroups/empty", func() (any, error) {
		found, err := made.client.DescribeShareGroups(limited(), share)
		return []any{found[share].GroupState, len(found[share].Members)}, err
	})
	made.Call("DescribeShareGroups/unknown", func() (any, error) {
		found, err := made.client.DescribeShareGroups(limited(), "franz-unknown")
		if err == nil {
			err = found["franz-unknown"].Err
		}
		return Nothing, err
	})
}

// consumerGroups describes a group whose partitions the broker assigns.
func (made Admin) consumerGroups() {
	member := client(kgo.ConsumerGroup(modern), kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeTopics(source), kgo.ConsumeResetOffset(start))
	defer member.Close()
	_, err := take(1, member.PollFetches)
	calls.Must(err)
	made.Call("DescribeConsumerGroups", func() (any, error) {
		found, err := made.client.DescribeConsumerGroups(limited(), modern)
		one := found[modern]
		if err == nil {
			err = one.Err
		}
		return []any{one.State, one.AssignorName, len(one.Members), len(one.AssignedPartitions()[source]), one.SubscribedTopics()}, err
	})
	made.Call("DescribeConsumerGroups/unknown", func() (any, error) {
		found, err := made.client.DescribeConsumerGroups(limited(), "franz-unknown")
		if err == nil {
			err = found["franz-unknown"].Err
		}
		return Nothing, err
	})
}
