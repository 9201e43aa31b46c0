"""Messages of the protocol to bytes and back, without I/O.

`apis` lists the requests, `messages` has one module per API, `headers` and `frame` enclose them.
Message modules are imported, and their readers and writers compiled, on first use.
"""
