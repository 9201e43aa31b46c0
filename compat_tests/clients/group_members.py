"""Group members that run independently of the test.

`ConsumerThread` joins and leaves normally. `ConsumerProcess` can be killed, so that it sends no
LeaveGroup.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from compat_tests.clients import adapters
from compat_tests.clients.adapters.contract import Client, Consumer, ConsumerOptions, Place, Record

WAIT_S = 60
POLL_S = 0.1


class ConsumerThread:
    """A consumer that polls in its own thread until `leave()` is called.

    Thread: all calls to the consumer run on that thread.
    """

    def __init__(
        self, client: Client, bootstrap: str, topics: list[str], options: ConsumerOptions, *, commit: bool = False
    ) -> None:
        self.records: list[Record] = []
        self.history: list[set[Place]] = []
        self._held: set[Place] = set()
        self._error: BaseException | None = None
        self._client = client
        self._bootstrap = bootstrap
        self._topics = topics
        self._options = options
        self._commit = commit
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="member", daemon=True)
        self._thread.start()

    def __enter__(self) -> ConsumerThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Close the consumer, which leaves the group.

        Raises: the exception that ended the thread, if there was one.
        """
        self._stop.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), f"the member could not leave within {WAIT_S} s"
        self._check()

    @property
    def held(self) -> set[Place]:
        self._check()
        return self._held

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            consumer = self._client.consumer(self._bootstrap, self._options)
            try:
                consumer.subscribe(self._topics)
                while not self._stop.is_set():
                    self._step(consumer)
            finally:
                consumer.close()
                self._held = set()
        except BaseException as error:  # `held` and leave() raise it in the test
            self._error = error

    def _step(self, consumer: Consumer) -> None:
        records = consumer.poll(POLL_S)
        self.records += records
        held = consumer.assignment()
        if held != self._held:
            self._held = held
            self.history.append(held)
        if records and self._commit:
            consumer.commit()


class ConsumerProcess:
    """A group member in its own process, which can be killed.

    A killed member stays in the group until its session times out.
    """

    def __init__(self, client: str, bootstrap: str, topic: str, group: str, session_ms: int) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "compat_tests.clients.group_members",
                client,
                bootstrap,
                topic,
                group,
                str(session_ms),
            ],
            cwd=Path(__file__).resolve().parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._held: set[Place] = set()
        self._reader = threading.Thread(target=self._read, name="member process", daemon=True)
        self._reader.start()

    def __enter__(self) -> ConsumerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def held(self) -> set[Place]:
        while not self._lines.empty():
            self._held = {Place(topic, partition) for topic, partition in json.loads(self._lines.get())}
        return self._held

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)


def main(client: str, bootstrap: str, topic: str, group: str, session_ms: str) -> None:
    """Run a member until it is killed; print its assignment as JSON after each change."""
    consumer = adapters.load(client).consumer(bootstrap, ConsumerOptions(group=group, session_ms=int(session_ms)))
    consumer.subscribe([topic])
    held: set[Place] = set()
    end = time.monotonic() + 4 * WAIT_S  # the upper bound if the test does not kill it
    while time.monotonic() < end:
        consumer.poll(POLL_S)
        if consumer.assignment() != held:
            held = consumer.assignment()
            print(json.dumps(sorted(held)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
