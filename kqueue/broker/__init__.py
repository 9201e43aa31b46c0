"""The broker composes the engines (logs, groups, metadata); no wire protocol, socket or event loop.

One package per subject, each of which says what it holds, its main object and who calls it.
`Broker` builds and joins the parts, each with what it names in its constructor; `Scheduler` is when
their work runs. `Member` makes the broker a member of a cluster, `snapshots` copies it.
The order of the packages is in `importlinter.toml`, and ARCHITECTURE.md draws it.
"""
