"""Which registry writes: one of the members of a classic Kafka group.

The group has the protocol type ``sr`` and its protocol ``v0``, as the registries of Confluent and
Aiven (Karapace) have, so that instances of all three may share one group and one topic.
`group_messages` has what members say to each other, `election_member` is the member in a thread,
`leadership` what a registry asks about it.
"""
