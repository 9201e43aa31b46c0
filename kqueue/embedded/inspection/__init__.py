"""Inspection of a running broker without a client: its topics, records and groups, and assertions
about them.

`mixin.InspectionMixin` is the part of `kqueue.Broker` that offers them. The other modules are
imported on first use, so that a broker that is not inspected starts faster.
"""
