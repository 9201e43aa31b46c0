"""`kqueue serve --workers N`: several brokers of one machine, each in a process of its own.

Worker 0 has the data folder and the `node.id` of a single broker, so what such a broker left is
its own. All share the SQLite store of that folder. The supervisor binds all sockets and passes them
on: one that every worker accepts from, the bootstrap address, and one for each worker alone.
"""
