"""A schema registry with the REST API of Confluent's, whose store is the topic `_schemas` of any
Kafka.

Its packages need the extra `registry`, and load its libraries when they are used.
"""
