// Serves kfake, the fake cluster of franz-go, on a port of loopback until the process is ended.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 0, "where it listens; 0: a free port")
	data := flag.String("data", "", "keep records in this folder; without it they are in memory")
	sync := flag.Bool("sync", false, "fsync each batch before it is confirmed")
	flag.Parse()

	options := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(*port), kfake.DefaultNumPartitions(1)}
	if *data != "" {
		options = append(options, kfake.DataDir(*data))
	}
	if *sync {
		options = append(options, kfake.SyncWrites())
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kfake did not start:", err)
		os.Exit(1)
	}
	fmt.Println(cluster.ListenAddrs()[0])
	<-ended
	cluster.Close()
}
