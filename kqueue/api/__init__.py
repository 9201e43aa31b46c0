"""The APIs of the Kafka protocol on a broker: one handler per API key, and what handlers share.

`handlers` has one module per served API. `handler_table` finds them. All other modules here serve
the handlers, or describe requests to the network layer and the test kit.
"""
