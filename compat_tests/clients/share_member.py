"""A member of a share group in its own process, which can be killed while it holds records."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import ShareConsumer

from compat_tests.clients.adapters.confluent_errors import QUIET
from compat_tests.clients.security import connecting
from compat_tests.waits import read_line

WAIT_S = 30


def member_settings(bootstrap: str, group: str, **settings: Any) -> dict[str, Any]:
    """Return librdkafka's settings; `settings` are more of them, with `_` for `.`."""
    more = {name.replace("_", "."): value for name, value in settings.items()}
    return {**QUIET, **connecting("confluent-kafka", bootstrap), "group.id": group, **more}


@contextmanager
def holding(bootstrap: str, group: str, topic: str) -> Iterator[list[int]]:
    """Run a member that acquires a batch and acknowledges nothing; kill it at the end.

    Returns: the offsets that it holds.
    """
    command = [sys.executable, "-m", "compat_tests.clients.share_member", bootstrap, group, topic]
    folder = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield [int(offset) for offset in read_line(process.stdout, "the offsets that a member holds").split()]
        finally:
            process.kill()


def main(bootstrap: str, group: str, topic: str) -> None:
    """Print the offsets of the first batch, and hold it until the process is killed."""
    consumer = ShareConsumer(member_settings(bootstrap, group, share_acknowledgement_mode="explicit"))
    consumer.subscribe([topic])
    print(*(message.offset() for message in consumer.poll(WAIT_S)), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
