package main

import (
	"context"
	"slices"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"

	"kqueue/languages/calls"
)

const (
	managed = "sarama-managed"
	modern  = "sarama-modern"
)

func (made Admin) groups() {
	config := settings()
	config.Consumer.Group.InstanceId = "sarama-instance"
	group, err := sarama.NewConsumerGroup(bootstrap, managed, config)
	calls.Must(err)
	ctx, leave := context.WithTimeout(context.Background(), callMax)
	claimed := joined{make(chan int, 1)}
	go group.Consume(ctx, []string{source}, claimed)
	<-claimed.partitions
	made.Call("DescribeConsumerGroups", func() (any, error) {
		found, err := made.admin.DescribeConsumerGroups([]string{managed})
		if err != nil {
			return nil, err
		}
		one := found[0]
		for _, member := range one.Members {
			return []any{one.State, one.ProtocolType, one.Protocol, *member.GroupInstanceId}, one.Err
		}
		return "no members", one.Err
	})
	made.Do("DeleteConsumerGroup/in use", func() error { return made.admin.DeleteConsumerGroup(managed) })
	made.Do("DeleteConsumerGroupOffset/subscribed", func() error {
		return made.admin.DeleteConsumerGroupOffset(managed, source, 0)
	})
	remove := func() (any, error) {
		found, err := made.admin.RemoveMemberFromConsumerGroup(managed, []string{"sarama-instance"})
		if err != nil {
			return nil, err
		}
		return len(found.Members), found.Members[0].Err
	}
	made.Call("RemoveMemberFromConsumerGroup", remove)
	made.Call("RemoveMemberFromConsumerGroup/unknown", remove)
	leave()
	calls.Must(group.Close())
	made.Call("ListConsumerGroups", func() (any, error) {
		found, err := made.admin.ListConsumerGroups()
		return found[managed], err
	})
	made.offsets()
	made.Do("DeleteConsumerGroup", func() error { return made.admin.DeleteConsumerGroup(managed) })
	made.Do("DeleteConsumerGroup/unknown", func() error { return made.admin.DeleteConsumerGroup(managed) })
	made.Call("DescribeConsumerGroups/unknown", func() (any, error) {
		found, err := made.admin.DescribeConsumerGroups([]string{managed})
		if err != nil {
			return nil, err
		}
		return found[0].State, found[0].Err
	})
}

func (made Admin) offsets() {
	made.Call("AlterConsumerGroupOffsets", func() (any, error) {
		wanted := map[string]map[int32]sarama.OffsetAndMetadata{source: {
			0: {Offset: 1, Metadata: "moved", LeaderEpoch: -1}, 1: {Offset: 1, LeaderEpoch: -1},
		}}
		found, err := made.admin.AlterConsumerGroupOffsets(managed, wanted, nil)
		if err != nil {
			return nil, err
		}
		return len(found.Errors[source]), found.Errors[source][0]
	})
	made.Call("ListConsumerGroupOffsets", func() (any, error) {
		found, err := made.admin.ListConsumerGroupOffsets(managed, map[string][]int32{source: {0}})
		if err != nil {
			return nil, err
		}
		block := found.GetBlock(source, 0)
		return []any{block.Offset, block.Metadata}, block.Err
	})
	made.Do("DeleteConsumerGroupOffset", func() error { return made.admin.DeleteConsumerGroupOffset(managed, source, 0) })
	made.Call("ListConsumerGroupOffsetsBatch", func() (any, error) {
		found, err := made.admin.ListConsumerGroupOffsetsBatch(map[string]map[string][]int32{managed: nil, "sarama-group": nil})
		if err != nil {
			return nil, err
		}
		return []int{len(found[managed].Blocks[source]), len(found["sarama-group"].Blocks[source])}, found[managed].Err
	})
}

// joinModern joins a group whose partitions the broker assigns, and waits for a record. sarama describes
// such a group, but joins none: this is a member of franz-go.
func joinModern() *kgo.Client {
	member, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumerGroup(modern), kgo.ConsumeTopics(source),
		kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	calls.Must(err)
	ctx, cancel := context.WithTimeout(context.Background(), callMax)
	defer cancel()
	calls.Must(member.PollFetches(ctx).Err())
	return member
}

// request makes the calls of a Broker that no other class makes: it sends a request as it is.
func request(client sarama.Client) {
	made := calls.New("sarama.Broker")
	producer, err := sarama.NewSyncProducer(bootstrap, transactional("sarama-open"))
	calls.Must(err)
	calls.Must(producer.BeginTxn())
	_, offset, err := producer.SendMessage(message(target, 1, "of an open transaction"))
	calls.Must(err)
	broker, err := client.Controller()
	calls.Must(err)
	made.Call("ListTransactions", func() (any, error) {
		found, err := broker.ListTransactions(&sarama.ListTransactionsRequest{Version: 1, StateFilters: []string{"Ongoing"}, DurationFilter: -1})
		if err != nil {
			return nil, err
		}
		return slices.ContainsFunc(found.TransactionStates, func(one sarama.ListTransactionsResponseTransactionState) bool {
			return one.TransactionalID == "sarama-open"
		}), found.ErrorCode
	})
	made.Call("DescribeTransactions", func() (any, error) {
		found, err := broker.DescribeTransactions(&sarama.DescribeTransactionsRequest{TransactionalIDs: []string{"sarama-open"}})
		if err != nil {
			return nil, err
		}
		one := found.TransactionStates[0]
		return []any{one.TransactionState, one.TransactionTimeout.Seconds(), one.Topics[0].Topic}, one.ErrorCode
	})
	made.Call("DescribeProducers", func() (any, error) {
		found, err := broker.DescribeProducers(&sarama.DescribeProducersRequest{
			Topics: []sarama.DescribeProducersRequestTopic{{Name: target, PartitionIndexes: []int32{1}}}})
		if err != nil {
			return nil, err
		}
		one := found.Topics[0].Partitions[0]
		return slices.ContainsFunc(one.ActiveProducers, func(one sarama.ProducerState) bool {
			return one.CurrentTxnStartOffset == offset
		}), one.ErrorCode
	})
	calls.Must(producer.AbortTxn())
	calls.Must(producer.Close())
	made.Call("ApiVersions", func() (any, error) {
		found, err := broker.ApiVersions(&sarama.ApiVersionsRequest{Version: 3, ClientSoftwareName: "sarama", ClientSoftwareVersion: "1"})
		if err != nil {
			return nil, err
		}
		return len(found.ApiKeys) > 40, sarama.KError(found.ErrorCode)
	})
	made.Call("DescribeCluster", func() (any, error) {
		found, err := broker.DescribeCluster(&sarama.DescribeClusterRequest{Version: 1, EndpointType: 1})
		if err != nil {
			return nil, err
		}
		return []any{len(found.Brokers), len(found.ClusterID)}, found.Err
	})
	member := joinModern()
	defer member.Close()
	made.Call("ConsumerGroupDescribe", func() (any, error) {
		wanted := sarama.NewConsumerGroupDescribeRequest(sarama.V4_0_0_0)
		wanted.GroupIDs = []string{modern, "sarama-unknown"}
		found, err := broker.ConsumerGroupDescribe(wanted)
		if err != nil {
			return nil, err
		}
		described := []any{}
		for _, one := range found.Groups {
			described = append(described, one.GroupID, one.GroupState, len(one.Members), one.ErrorCode)
		}
		return described, nil
	})
	left := map[string]string{}
	for _, name := range []string{
		"CreateAcls", "DeleteAcls", "DescribeAcls", "AlterClientQuotas", "DescribeClientQuotas", "AlterUserScramCredentials",
		"DescribeUserScramCredentials", "TLSConnectionState",
	} {
		left[name] = calls.Security
	}
	for _, name := range []string{"Addr", "Close", "Connected", "ID", "Open", "Rack", "ResponseSize"} {
		left[name] = calls.NoRequest
	}
	for _, name := range []string{
		"AddOffsetsToTxn", "AddPartitionsToTxn", "AlterConfigs", "AlterPartitionReassignments", "AsyncProduce", "CommitOffset",
		"CreatePartitions", "CreateTopics", "DeleteGroups", "DeleteOffsets", "DeleteRecords", "DeleteTopics", "DescribeConfigs",
		"DescribeGroups", "DescribeLogDirs", "ElectLeaders", "EndTxn", "Fetch", "FetchOffset", "FindCoordinator",
		"GetAvailableOffsets", "GetConsumerMetadata", "GetMetadata", "Heartbeat", "IncrementalAlterConfigs", "InitProducerID",
		"JoinGroup", "LeaveGroup", "ListGroups", "ListPartitionReassignments", "Produce", "SyncGroup", "TxnOffsetCommit",
		"UpdateFeatures",
	} {
		left[name] = "sent by the classes above"
	}
	made.Print(class[*sarama.Broker](), left)
}
