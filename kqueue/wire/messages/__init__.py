"""The messages of the protocol: one module per API, named as the API in snake case.

Nothing is imported here: `kqueue.wire.apis` finds a module by its key and imports it when it is
first needed.

Structures that two messages have in common are in both modules, as in Kafka's definitions: each
message has versions of its own, and their fields part with the next one.
"""
