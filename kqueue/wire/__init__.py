"""Encodes and decodes the messages of the protocol, without I/O.

`apis` lists the APIs; `messages` has one module per API; `headers` and `frame` enclose messages.
Message modules are imported, and their readers and writers compiled, on first use.
"""
