package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kqueue/languages/calls"
)

const (
	topic   = "franz-admin"
	nowhere = "franz-nowhere"
)

// Admin makes the calls of kadm in the order of the functions below.
type Admin struct {
	*calls.Calls
	client *kadm.Client
}

// failing is what many answers have: the first error of all items.
type failing interface{ Error() error }

func administer(client *kadm.Client) {
	made := Admin{calls.New("kadm.Client"), client}
	made.cluster()
	made.topics()
	made.configs()
	made.stateConfigs()
	made.records()
	made.folders()
	made.replicas()
	made.groups()
	made.consumerGroups()
	made.shareGroups()
	made.transactions()
	made.deletions()
	made.Print(reflect.TypeFor[*kadm.Client](), map[string]string{
		"AlterClientQuotas":         calls.Security,
		"ValidateAlterClientQuotas": calls.Security,
		"DescribeClientQuotas":      calls.Security,
		"AlterUserSCRAMs":           calls.Security,
		"DescribeUserSCRAMs":        calls.Security,
		"CreateACLs":                calls.Security,
		"DeleteACLs":                calls.Security,
		"DescribeACLs":              calls.Security,
		"CreateDelegationToken":     calls.Security,
		"DescribeDelegationTokens":  calls.Security,
		"ExpireDelegationToken":     calls.Security,
		"RenewDelegationToken":      calls.Security,
		"Close":                     calls.NoRequest,
		"SetTimeoutMillis":          calls.NoRequest,
		"OffetForLeaderEpoch":       "the same as OffsetForLeaderEpoch",
	})
}

// all is a call whose answer has the first error of its items; it gives their number.
func all[Answer failing](call func() (Answer, error)) func() (any, error) {
	return func() (any, error) {
		answer, err := call()
		if err == nil {
			err = answer.Error()
		}
		return reflect.ValueOf(answer).Len(), err
	}
}

func (made Admin) cluster() {
	made.Call("BrokerMetadata", func() (any, error) {
		found, err := made.client.BrokerMetadata(limited())
		return []any{len(found.Brokers), found.Controller, len(found.Cluster)}, err
	})
	made.Call("ListBrokers", func() (any, error) {
		found, err := made.client.ListBrokers(limited())
		return found.NodeIDs(), err
	})
	made.Call("ApiVersions", func() (any, error) {
		found, err := made.client.ApiVersions(limited())
		versions := found[1]
		newest, _ := versions.KeyMaxVersion(int16(kmsg.EndTxn))
		return []any{len(found), newest}, err
	})
	feature := func(level int16, kind int8) func() (any, error) {
		return func() (any, error) {
			wanted := kadm.FeatureUpdate{Feature: "transaction.version", MaxVersionLevel: level, UpgradeType: kind}
			found, err := made.client.UpdateFeatures(limited(), true, wanted)
			if err == nil {
				err = found.Error()
			}
			return calls.Done, err
		}
	}
	made.Call("UpdateFeatures/validate", feature(1, 2))
	made.Call("UpdateFeatures/unsupported", feature(9, 1))
	coordinators := func(found kadm.FindCoordinatorResponses) (any, error) {
		return found["franz-any"].NodeID, found.Error()
	}
	made.Call("FindGroupCoordinators", func() (any, error) {
		return coordinators(made.client.FindGroupCoordinators(limited(), "franz-any"))
	})
	made.Call("FindTxnCoordinators", func() (any, error) {
		return coordinators(made.client.FindTxnCoordinators(limited(), "franz-any"))
	})
}

func (made Admin) topics() {
	settings := map[string]*string{"retention.ms": kadm.StringPtr("-1"), "segment.bytes": kadm.StringPtr("2000000")}
	made.Call("ValidateCreateTopics", all(func() (kadm.CreateTopicResponses, error) {
		return made.client.ValidateCreateTopics(limited(), 2, 1, settings, topic)
	}))
	made.Call("CreateTopic", func() (any, error) {
		found, err := made.client.CreateTopic(limited(), 2, 1, settings, topic)
		config := found.Configs["retention.ms"]
		return []any{found.NumPartitions, found.ReplicationFactor, config.MaybeValue()}, err
	})
	made.Call("CreateTopics", all(func() (kadm.CreateTopicResponses, error) {
		return made.client.CreateTopics(limited(), -1, -1, nil, "franz-other", "franz-another")
	}))
	made.Call("CreateTopics/exists", all(func() (kadm.CreateTopicResponses, error) {
		return made.client.CreateTopics(limited(), 1, 1, nil, topic)
	}))
	made.Call("CreateTopics/replication", all(func() (kadm.CreateTopicResponses, error) {
		return made.client.CreateTopics(limited(), 1, 2, nil, nowhere)
	}))
	made.Call("ValidateCreatePartitions", all(func() (kadm.CreatePartitionsResponses, error) {
		return made.client.ValidateCreatePartitions(limited(), 1, topic)
	}))
	made.Call("CreatePartitions", all(func() (kadm.CreatePartitionsResponses, error) {
		return made.client.CreatePartitions(limited(), 1, topic)
	}))
	made.Call("ValidateUpdatePartitions", all(func() (kadm.CreatePartitionsResponses, error) {
		return made.client.ValidateUpdatePartitions(limited(), 4, topic)
	}))
	made.Call("UpdatePartitions", all(func() (kadm.CreatePartitionsResponses, error) {
		return made.client.UpdatePartitions(limited(), 4, topic)
	}))
	made.Call("UpdatePartitions/fewer", all(func() (kadm.CreatePartitionsResponses, error) {
		return made.client.UpdatePartitions(limited(), 3, topic)
	}))
	made.Until("ListTopics", 4, func() (any, error) {
		found, err := made.client.ListTopics(limited(), topic)
		return len(found[topic].Partitions), err
	})
	made.Call("ListTopics/unknown", func() (any, error) {
		found, err := made.client.ListTopics(limited(), nowhere)
		if err == nil {
			err = found[nowhere].Err
		}
		return Nothing, err
	})
	made.Call("ListTopicsWithInternal", func() (any, error) {
		found, err := made.client.ListTopicsWithInternal(limited())
		return []bool{found.Has("__consumer_offsets"), found["__consumer_offsets"].IsInternal}, err
	})
	made.Call("Metadata", func() (any, error) {
		found, err := made.client.Metadata(limited(), topic)
		first := found.Topics[topic].Partitions[0]
		return []any{first.Leader, first.Replicas, first.ISR, first.OfflineReplicas}, err
	})
}

func alter(op kadm.IncrementalOp, name, value string) kadm.AlterConfig {
	return kadm.AlterConfig{Op: op, Name: name, Value: kadm.StringPtr(value)}
}

func altered(found kadm.AlterConfigsResponses, err error) (any, error) {
	for _, one := range found {
		if one.Err != nil {
			return Nothing, one.Err
		}
	}
	return len(found), err
}

// value is the value of a setting and where it is defined.
func value(found kadm.ResourceConfigs, err error, name string) (any, error) {
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(found[0].Configs, func(one kadm.Config) bool { return one.Key == name })
	if at < 0 {
		return "no such setting", found[0].Err
	}
	one := found[0].Configs[at]
	return strings.Join([]string{one.MaybeValue(), one.Source.String()}, " "), found[0].Err
}

func (made Admin) configs() {
	described := func(name string) func() (any, error) {
		return func() (any, error) {
			found, err := made.client.DescribeTopicConfigs(limited(), topic)
			return value(found, err, name)
		}
	}
	alterTopic := func(name string, changes ...kadm.AlterConfig) {
		made.Call(name, func() (any, error) { return altered(made.client.AlterTopicConfigs(limited(), changes, topic)) })
	}
	alterTopic("AlterTopicConfigs", alter(kadm.SetConfig, "cleanup.policy", "compact"), alter(kadm.SetConfig, "segment.ms", "600000"))
	made.Until("DescribeTopicConfigs", "compact DYNAMIC_TOPIC_CONFIG", described("cleanup.policy"))
	alterTopic("AlterTopicConfigs/append", alter(kadm.AppendConfig, "cleanup.policy", "delete"))
	made.Until("DescribeTopicConfigs/append", "compact,delete DYNAMIC_TOPIC_CONFIG", described("cleanup.policy"))
	alterTopic("AlterTopicConfigs/subtract", alter(kadm.SubtractConfig, "cleanup.policy", "compact"), alter(kadm.DeleteConfig, "segment.ms", ""))
	made.Until("DescribeTopicConfigs/subtract", "delete DYNAMIC_TOPIC_CONFIG", described("cleanup.policy"))
	made.Until("DescribeTopicConfigs/deleted", "604800000 DEFAULT_CONFIG", described("segment.ms"))
	alterTopic("AlterTopicConfigs/invalid", alter(kadm.SetConfig, "segment.ms", "soon"))
	alterTopic("AlterTopicConfigs/unknown", alter(kadm.SetConfig, "no.such.setting", "1"))
	made.Call("ValidateAlterTopicConfigs", func() (any, error) {
		wanted := []kadm.AlterConfig{alter(kadm.SetConfig, "segment.ms", "600000")}
		return altered(made.client.ValidateAlterTopicConfigs(limited(), wanted, topic))
	})
	made.Call("DescribeTopicConfigs/validated", described("segment.ms"))
	made.Call("DescribeTopicConfigs/unknown", func() (any, error) {
		found, err := made.client.DescribeTopicConfigs(limited(), nowhere)
		return value(found, err, "segment.ms")
	})
	broker := func() (any, error) {
		found, err := made.client.DescribeBrokerConfigs(limited(), 1)
		return value(found, err, "message.max.bytes")
	}
	set := []kadm.AlterConfig{alter(kadm.SetConfig, "message.max.bytes", "2000000")}
	made.Call("ValidateAlterBrokerConfigs", func() (any, error) {
		return altered(made.client.ValidateAlterBrokerConfigs(limited(), set, 1))
	})
	made.Call("AlterBrokerConfigs", func() (any, error) { return altered(made.client.AlterBrokerConfigs(limited(), set, 1)) })
	made.Until("DescribeBrokerConfigs", "2000000 DYNAMIC_BROKER_CONFIG", broker)
	back := []kadm.AlterConfig{alter(kadm.DeleteConfig, "message.max.bytes", "")}
	made.Call("AlterBrokerConfigs/back", func() (any, error) { return altered(made.client.AlterBrokerConfigs(limited(), back, 1)) })
	made.Until("DescribeBrokerConfigs/back", "1048588 DEFAULT_CONFIG", broker)
	readOnly := []kadm.AlterConfig{alter(kadm.SetConfig, "node.id", "7")}
	made.Call("AlterBrokerConfigs/read only", func() (any, error) {
		return altered(made.client.AlterBrokerConfigs(limited(), readOnly, 1))
	})
	made.Call("ListConfigResources", func() (any, error) {
		found, err := made.client.ListConfigResources(limited(), kmsg.ConfigResourceTypeTopic)
		return slices.Contains(found.Names(), topic), err
	})
}

// stateConfigs replaces all settings of a resource, as the older request does.
func (made Admin) stateConfigs() {
	described := func(name string) func() (any, error) {
		return func() (any, error) {
			found, err := made.client.DescribeTopicConfigs(limited(), topic)
			return value(found, err, name)
		}
	}
	wanted := []kadm.AlterConfig{alter(kadm.SetConfig, "segment.ms", "700000"), alter(kadm.SetConfig, "retention.ms", "-1")}
	made.Call("ValidateAlterTopicConfigsState", func() (any, error) {
		return altered(made.client.ValidateAlterTopicConfigsState(limited(), wanted, topic))
	})
	made.Call("AlterTopicConfigsState", func() (any, error) {
		return altered(made.client.AlterTopicConfigsState(limited(), wanted, topic))
	})
	made.Until("DescribeTopicConfigs/state", "700000 DYNAMIC_TOPIC_CONFIG", described("segment.ms"))
	made.Until("DescribeTopicConfigs/replaced", "1073741824 DEFAULT_CONFIG", described("segment.bytes"))
	broker := []kadm.AlterConfig{alter(kadm.SetConfig, "message.max.bytes", "3000000")}
	made.Call("ValidateAlterBrokerConfigsState", func() (any, error) {
		return altered(made.client.ValidateAlterBrokerConfigsState(limited(), broker, 1))
	})
	made.Call("AlterBrokerConfigsState", func() (any, error) {
		return altered(made.client.AlterBrokerConfigsState(limited(), broker, 1))
	})
	made.Until("DescribeBrokerConfigs/state", "3000000 DYNAMIC_BROKER_CONFIG", func() (any, error) {
		found, err := made.client.DescribeBrokerConfigs(limited(), 1)
		return value(found, err, "message.max.bytes")
	})
	made.Call("AlterBrokerConfigsState/back", func() (any, error) {
		return altered(made.client.AlterBrokerConfigsState(limited(), nil, 1))
	})
}
