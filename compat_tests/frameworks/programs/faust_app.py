"""Counts words with Faust in a table; the counts survive a crash in the table's changelog topic.

`python faust_app.py BOOTSTRAP worker --without-web`; its files are in the working folder.
"""

from __future__ import annotations

import sys

import faust

bootstrap = sys.argv.pop(1)
app = faust.App(
    "counting",
    broker=f"kafka://{bootstrap}",
    store="memory://",
    topic_partitions=2,
    topic_replication_factor=1,
    broker_session_timeout=6,
    broker_heartbeat_interval=1,
    broker_commit_interval=0.5,
)
words = app.topic("words", key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
counts = app.topic("counts", key_serializer="raw", value_serializer="raw")
table = app.Table("totals", default=int)


@app.agent(words)
async def count(stream: faust.Stream[bytes]) -> None:
    async for word in stream:
        name = word.decode()
        table[name] += 1
        await counts.send(key=word, value=str(table[name]).encode())


if __name__ == "__main__":
    app.main()
