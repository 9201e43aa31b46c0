"""Counts words with Quix Streams, exactly once; the state is in RocksDB and in a changelog topic.

`python quix_app.py BOOTSTRAP`; its files are in the working folder.
"""

from __future__ import annotations

import sys
from typing import Any

from quixstreams import Application, State


def count(word: str, state: State) -> str:
    total: Any = state.get("total", 0) + 1
    state.set("total", total)
    return str(total)


def main(bootstrap: str) -> None:
    app = Application(
        broker_address=bootstrap,
        consumer_group="counting",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=1.0,
        state_dir="state",
        consumer_extra_config={"session.timeout.ms": 6000},
        # its transactional ids are random: a restart does not fence what a crash left open
        producer_extra_config={"transaction.timeout.ms": 5000},
    )
    words = app.topic("words", key_deserializer="string", value_deserializer="string")
    counts = app.topic("counts", key_serializer="string", value_serializer="string")
    app.dataframe(words).apply(count, stateful=True).to_topic(counts)
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
