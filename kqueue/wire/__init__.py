"""Floor 3: bytes to messages and back, without any I/O.

`apis` lists the requests, `messages` holds one module per API, `headers` and `frame` what stands
around them. Message modules are imported, and their readers and writers compiled, on first use.
"""
