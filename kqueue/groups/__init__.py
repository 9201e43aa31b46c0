"""Group coordination: members, rebalances, committed offsets and their records.

`coordinator` asks the manager of a group's type (`group_types`). `consumer`, `share` and `streams`
are built on `modern`, and do not import each other; `classic` is beside them. `log` has the frames
of the records and knows no type. `importlinter.toml` has the whole order.
"""
