"""Common parts of consumer, share and streams groups; Kafka calls them modern groups.

`ModernGroup` is what the records of a group say; `ModernGroupManager` finds, makes and fences;
`TargetAssignments` decides when a target is computed; the `WriteQueue` appends. A type derives the
first two, and adds its records, its assignor and its reconciliation. Imports no type.
"""
