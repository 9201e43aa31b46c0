"""Looking into a running broker without a client: its topics, records and groups, and what a test
asserts of them.

`mixin.InspectionMixin` is what `kqueue.Broker` offers; the rest is imported when it is first used, so that a
broker that nobody looks into starts no slower for it.
"""
