"""A schema registry with the REST API of Confluent's, whose store is the topic `_schemas` of any
Kafka.

`Registry` has the operations. It reads its state from the records of a `SchemaLog`, and changes it
by appending to that log only. `schemas` parses Avro, JSON Schema and Protobuf; `rest` serves HTTP.
Imports `client`, `security` and `base`; knows neither broker nor log engine. Needs the extra
`registry`, whose libraries are loaded when they are used.
"""
