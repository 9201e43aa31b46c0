"""Messages of a topic: read, searched, shown, produced, copied and deleted. No HTTP.

`message_page.read_page` reads one page of a topic by `partition_scans`, which decode what brokers
send by `fetched_batches`. A `search_filter` narrows it; `value_view` shows a key or value as text.
`record_form`, `producer`, `topic_copy` and `deletion` are for changes. Every read is bounded in
records, bytes and time, and bytes of records never raise: they are shown in another form, with the
reason. Called by `console.pages`.
"""
