"""State: what the records of `_schemas` say, in memory, with an index for each question.

`RegistryState` applies one record after the other, and answers questions. It checks nothing: what a
record says holds, whoever wrote it. It is not locked: `Registry` does that.
"""
