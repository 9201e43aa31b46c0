"""Topics: which exist, with which settings, and where their replicas are.

`Topics` is the main object: creation, growth, settings and deletion, each a guarded commit.
`TopicEvents` are what other parts learn of it; `replica_assignment` places replicas;
`folder_import` and `kafka_metadata` take over data folders of Kafka; `record_forms` converts
records between a single broker and a cluster.
Called by the admin handlers and every package above. Imports `produce` and `metadata`.
"""
