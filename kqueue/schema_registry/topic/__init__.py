"""The schema log in the topic `_schemas` of any Kafka.

`prepare_topic` creates the topic, or checks that it can be used. `SchemaTopicReader` reads it from
its first record and follows it in a thread. `SchemaTopicLog` is the `SchemaLog` that appends to it;
what it does for an election is `claim`, after which no earlier writer can append.
"""
