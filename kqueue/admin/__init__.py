"""What commands, the live screen and the console in the browser show of a cluster.

It is read over the wire through `kqueue.client`, so any Kafka has it. Nothing here prints, parses
options or waits for a key.

    with Client("localhost:9092") as client:
        metadata = client.metadata()
        ends = log_ends(client, metadata.topics.values()).ends
        folders = log_dirs(client, metadata.brokers).by_broker
        lags = group_lags(client, client.groups().values())
"""
