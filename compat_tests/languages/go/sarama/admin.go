package main

import (
	"slices"

	"github.com/IBM/sarama"

	"kqueue/languages/calls"
)

// Admin makes the calls of ClusterAdmin in the order of the functions below.
type Admin struct {
	*calls.Calls
	admin sarama.ClusterAdmin
}

func administer(admin sarama.ClusterAdmin) {
	made := Admin{calls.New("sarama.ClusterAdmin"), admin}
	made.cluster()
	made.topics()
	made.configs()
	made.records()
	made.replicas()
	made.groups()
	made.Do("DeleteTopic", func() error { return admin.DeleteTopic(topic) })
	made.Do("DeleteTopic/unknown", func() error { return admin.DeleteTopic(nowhere) })
	made.Print(class[sarama.ClusterAdmin](), map[string]string{
		"AlterClientQuotas": calls.Security, "DescribeClientQuotas": calls.Security,
		"CreateACL": calls.Security, "CreateACLs": calls.Security, "DeleteACL": calls.Security, "ListAcls": calls.Security,
		"DeleteUserScramCredentials": calls.Security, "DescribeUserScramCredentials": calls.Security,
		"UpsertUserScramCredentials": calls.Security,
		"Close":                      calls.NoRequest,
	})
}

func (made Admin) cluster() {
	made.Call("DescribeCluster", func() (any, error) {
		brokers, controller, err := made.admin.DescribeCluster()
		return []any{len(brokers), controller}, err
	})
	made.Call("Controller", func() (any, error) {
		broker, err := made.admin.Controller()
		return broker.ID(), err
	})
	made.Call("Coordinator", func() (any, error) {
		broker, err := made.admin.Coordinator("sarama-any")
		return broker.ID(), err
	})
	made.Call("UpdateFeatures/unsupported", func() (any, error) {
		wanted := sarama.FeatureUpdate{Feature: "transaction.version", MaxVersionLevel: 9}
		_, err := made.admin.UpdateFeatures([]sarama.FeatureUpdate{wanted})
		return Nothing, err
	})
	made.Call("UpdateFeatures", func() (any, error) {
		wanted := sarama.FeatureUpdate{Feature: "transaction.version", MaxVersionLevel: 2}
		_, err := made.admin.UpdateFeatures([]sarama.FeatureUpdate{wanted})
		return calls.Done, err
	})
}

func (made Admin) topics() {
	retention := "-1"
	detail := sarama.TopicDetail{
		NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &retention},
	}
	made.Do("CreateTopic/validate", func() error { return made.admin.CreateTopic(topic, &detail, true) })
	made.Do("CreateTopic", func() error { return made.admin.CreateTopic(topic, &detail, false) })
	made.Do("CreateTopic/exists", func() error { return made.admin.CreateTopic(topic, &detail, false) })
	made.Do("CreateTopic/unknown broker", func() error {
		elsewhere := sarama.TopicDetail{NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: map[int32][]int32{0: {2}}}
		return made.admin.CreateTopic(nowhere, &elsewhere, false)
	})
	made.Do("CreatePartitions/validate", func() error { return made.admin.CreatePartitions(topic, 3, nil, true) })
	made.Do("CreatePartitions", func() error { return made.admin.CreatePartitions(topic, 3, [][]int32{{1}}, false) })
	made.Do("CreatePartitions/fewer", func() error { return made.admin.CreatePartitions(topic, 2, nil, false) })
	made.Until("ListTopics", int32(3), func() (any, error) {
		found, err := made.admin.ListTopics()
		return found[topic].NumPartitions, err
	})
	made.Until("DescribeTopics", 3, func() (any, error) {
		found, err := made.admin.DescribeTopics([]string{topic})
		if err != nil {
			return nil, err
		}
		return len(found[0].Partitions), found[0].Err
	})
	made.Call("DescribeTopics/unknown", func() (any, error) {
		found, err := made.admin.DescribeTopics([]string{nowhere})
		if err != nil {
			return nil, err
		}
		return Nothing, found[0].Err
	})
}

func (made Admin) value(resource sarama.ConfigResource) func() (any, error) {
	return func() (any, error) {
		found, err := made.admin.DescribeConfig(resource)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		return found[0].Value + " " + found[0].Source.String(), nil
	}
}

func (made Admin) configs() {
	change := func(op sarama.IncrementalAlterConfigsOperation, name, value string) map[string]sarama.IncrementalAlterConfigsEntry {
		return map[string]sarama.IncrementalAlterConfigsEntry{name: {Operation: op, Value: &value}}
	}
	set, remove := sarama.IncrementalAlterConfigsOperationSet, sarama.IncrementalAlterConfigsOperationDelete
	alter := func(name string, kind sarama.ConfigResourceType, of string, entries map[string]sarama.IncrementalAlterConfigsEntry) {
		made.Do("IncrementalAlterConfig"+name, func() error {
			return made.admin.IncrementalAlterConfig(kind, of, entries, name == "/validate")
		})
	}
	segmentMs := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"segment.ms"}}
	retention := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}}
	largest := sarama.ConfigResource{Type: sarama.BrokerResource, Name: "1", ConfigNames: []string{"message.max.bytes"}}
	alter("/validate", sarama.TopicResource, topic, change(set, "segment.ms", "600000"))
	made.Call("DescribeConfig/validated", made.value(segmentMs))
	alter("", sarama.TopicResource, topic, change(set, "segment.ms", "600000"))
	made.Until("DescribeConfig", "600000 Topic", made.value(segmentMs))
	alter("/delete", sarama.TopicResource, topic, change(remove, "segment.ms", ""))
	made.Until("DescribeConfig/deleted", "604800000 Default", made.value(segmentMs))
	alter("/invalid", sarama.TopicResource, topic, change(set, "segment.ms", "soon"))
	alter("/unknown topic", sarama.TopicResource, nowhere, change(set, "segment.ms", "600000"))
	alter("/broker", sarama.BrokerResource, "1", change(set, "message.max.bytes", "2000000"))
	made.Until("DescribeConfig/broker", "2000000 DynamicBroker", made.value(largest))
	alter("/broker back", sarama.BrokerResource, "1", change(remove, "message.max.bytes", ""))
	made.Until("DescribeConfig/broker back", "1048588 Default", made.value(largest))
	made.Call("DescribeConfig/unknown topic", made.value(
		sarama.ConfigResource{Type: sarama.TopicResource, Name: nowhere, ConfigNames: []string{"segment.ms"}}))
	made.Call("DescribeConfigs", func() (any, error) {
		options := sarama.DescribeConfigsOptions{IncludeSynonyms: true, IncludeDocumentation: true}
		found, err := made.admin.DescribeConfigs([]*sarama.ConfigResource{&retention}, options)
		if err != nil {
			return nil, err
		}
		one := found[0].Configs[0]
		return []any{one.Value, one.Source.String(), one.Synonyms[0].ConfigName, one.Documentation != nil}, found[0].ErrorCode
	})
	wanted := "700000"
	replaced := map[string]*string{"segment.ms": &wanted}
	made.Do("AlterConfig/validate", func() error { return made.admin.AlterConfig(sarama.TopicResource, topic, replaced, true) })
	made.Do("AlterConfig", func() error { return made.admin.AlterConfig(sarama.TopicResource, topic, replaced, false) })
	made.Until("DescribeConfig/legacy", "700000 Topic", made.value(segmentMs))
	made.Call("DescribeConfig/replaced", func() (any, error) {
		found, err := made.value(retention)()
		return found != "-1 Topic", err
	})
	made.Do("AlterConfig/unknown topic", func() error {
		return made.admin.AlterConfig(sarama.TopicResource, nowhere, replaced, false)
	})
}

func (made Admin) records() {
	producer, err := sarama.NewSyncProducer(bootstrap, idempotent())
	calls.Must(err)
	defer producer.Close()
	for range 10 {
		_, _, err := producer.SendMessage(message(topic, 0, "value"))
		calls.Must(err)
	}
	for name, time := range map[string]int64{
		"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest, "time": 1_000, "max": -3, "local": -4, "tiered": -5,
	} {
		made.Call("ListOffsets/"+name, func() (any, error) {
			wanted := map[string]map[int32]int64{topic: {0: time}}
			found, err := made.admin.ListOffsets(wanted, &sarama.ListOffsetsOptions{IsolationLevel: sarama.ReadCommitted})
			if err != nil {
				return nil, err
			}
			return found[topic][0].Offset, found[topic][0].Err
		})
	}
	made.Do("DeleteRecords", func() error { return made.admin.DeleteRecords(topic, map[int32]int64{0: 4}) })
	made.Do("DeleteRecords/beyond the end", func() error { return made.admin.DeleteRecords(topic, map[int32]int64{0: 40}) })
	made.Call("DescribeLogDirs", func() (any, error) {
		found, err := made.admin.DescribeLogDirs([]int32{1})
		if err != nil {
			return nil, err
		}
		one := found[1][0]
		at := slices.IndexFunc(one.Topics, func(of sarama.DescribeLogDirsResponseTopic) bool { return of.Topic == topic })
		return []any{one.TotalBytes > 0, one.UsableBytes > 0, len(one.Topics[at].Partitions)}, one.ErrorCode
	})
}

func (made Admin) replicas() {
	elect := func(kind sarama.ElectionType, name string) func() (any, error) {
		return func() (any, error) {
			found, err := made.admin.ElectLeaders(kind, map[string][]int32{name: {0}})
			if err != nil {
				return nil, err
			}
			return Nothing, found[name][0].ErrorCode
		}
	}
	made.Call("ElectLeaders", elect(sarama.PreferredElection, topic))
	made.Call("ElectLeaders/unclean", elect(sarama.UncleanElection, topic))
	made.Call("ElectLeaders/unknown", elect(sarama.PreferredElection, nowhere))
	made.Do("AlterPartitionReassignments", func() error {
		return made.admin.AlterPartitionReassignments(topic, [][]int32{{1}, {1}, {1}})
	})
	made.Do("AlterPartitionReassignments/unknown broker", func() error {
		return made.admin.AlterPartitionReassignments(topic, [][]int32{{2}, {1}, {1}})
	})
	made.Do("AlterPartitionReassignments/unknown topic", func() error {
		return made.admin.AlterPartitionReassignments(nowhere, [][]int32{{1}})
	})
	made.Call("ListPartitionReassignments", func() (any, error) {
		found, err := made.admin.ListPartitionReassignments(topic, []int32{0, 1})
		return len(found), err
	})
}
