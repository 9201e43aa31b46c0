"""One module per served API, named like its messages; see `api.handler_table`."""
