// Every call of franz-go that needs no second broker and no security, or work while brokers are killed:
//
//	franz BOOTSTRAP
//	franz BOOTSTRAP TOPIC COUNT
package main

import (
	"context"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kqueue/languages/calls"
)

const callMax = 20 * time.Second

var bootstrap string

func main() {
	bootstrap = os.Args[1]
	if len(os.Args) > 2 {
		count, err := strconv.Atoi(os.Args[3])
		calls.Must(err)
		failover(os.Args[2], count)
		return
	}
	admin := kadm.NewClient(client())
	defer admin.Close()
	prepare(admin)

	made := calls.New("kgo.Client")
	produce(made)
	transact(made)
	consume(made)
	consumeAsGroup(made)
	marks(made)
	acknowledge(made)
	made.Print(reflect.TypeFor[*kgo.Client](), map[string]string{
		"AllowRebalance":             calls.NoRequest,
		"CloseAllowingRebalance":     calls.NoRequest,
		"Context":                    calls.NoRequest,
		"GetConsumeTopics":           calls.NoRequest,
		"OptValue":                   calls.NoRequest,
		"OptValues":                  calls.NoRequest,
		"Opts":                       calls.NoRequest,
		"UnsafeAbortBufferedRecords": calls.NoRequest,
		"UpdateFetchMaxBytes":        calls.NoRequest,
	})

	session := calls.New("kgo.GroupTransactSession")
	consumeAndProduce(session)
	session.Print(reflect.TypeFor[*kgo.GroupTransactSession](), map[string]string{
		"AllowRebalance":         calls.NoRequest,
		"Client":                 calls.NoRequest,
		"CloseAllowingRebalance": calls.NoRequest,
	})

	administer(admin)
}

func client(options ...kgo.Opt) *kgo.Client {
	options = append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}, options...)
	made, err := kgo.NewClient(options...)
	calls.Must(err)
	return made
}

// limited is the context of one call.
func limited() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), callMax)
	time.AfterFunc(2*callMax, cancel)
	return ctx
}

func record(topic string, partition int32, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Key: []byte("key"), Value: []byte(value)}
}

// take polls until it has as many records, and returns their values in order.
func take(count int, poll func(context.Context) kgo.Fetches) ([]string, error) {
	ctx := limited()
	values := []string{}
	for len(values) < count {
		fetches := poll(ctx)
		if err := fetches.Err(); err != nil {
			return values, err
		}
		fetches.EachRecord(func(found *kgo.Record) { values = append(values, string(found.Value)) })
	}
	slices.Sort(values)
	return values, nil
}

const (
	source   = "franz-source"
	target   = "franz-target"
	group    = "franz-group"
	copies   = "franz-copies"
	sessions = "franz-sessions"
)

func prepare(admin *kadm.Client) {
	responses, err := admin.CreateTopics(limited(), 2, 1, nil, source, target, copies, queue)
	calls.Must(err)
	calls.Must(responses.Error())
}
