"""The broker's view of the metadata store: what the cluster is, and what it has decided.

`BrokerMetadata` is the main object. `MetadataCache` keeps the records of the store in memory and
changes them by guarded commits; `ClusterMetadata` follows the changes of other brokers. `Cluster`
answers who the brokers are, `Features` which formats are in use, `ProducerIds` hands out producer
ids. `BrokerIdentity` is what this broker is called, and where it is reached.
Called by every package of the broker above it. Imports the store's contract and the purgatory.
"""
