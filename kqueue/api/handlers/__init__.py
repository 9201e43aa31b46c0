"""One module per served API, named like its messages in `wire.messages`; see `api.handler_table`."""
