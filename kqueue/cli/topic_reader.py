"""TopicReader a topic for `kqueue consume`: where to start, when to end, and committing no more than
has been printed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kqueue.cli.connect import explain
from kqueue.cli.formats import ConsumedRecord

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition

Start = int | str
"""An offset, "earliest" or "latest"; a negative number counts back from the end."""

POLL_MS = 200
POLL_RECORDS = 1000
COMMIT_EVERY_S = 1.0
ANSWER_TIMEOUT_MS = 5000
JOIN_S = 15.0


class TopicReader:
    """One run of `consume`. What counts as read is what standard output has taken; only that is
    committed.
    """

    def __init__(
        self,
        topic: str,
        write: Callable[[ConsumedRecord], bytes],
        out: BinaryIO,
        max_messages: int | None,
        timeout_ms: int | None,
    ) -> None:
        self.topic = topic
        self.write = write
        self.out = out
        self.max_messages = max_messages
        self.timeout_ms = timeout_ms
        self.printed = 0
        self._in_group = False
        self._joined = False
        self._next: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._stop = threading.Event()
        self._consumer: KafkaConsumer | None = None
        self._next_commit_s = 0.0

    def open(self, options: dict[str, Any]) -> None:
        from kafka import KafkaConsumer

        self._consumer = KafkaConsumer(**options)
        self._in_group = options["group_id"] is not None

    @property
    def consumer(self) -> KafkaConsumer:
        assert self._consumer is not None, "open() comes first"
        return self._consumer

    def assign(self, partitions: Iterable[int], start: Start, at_ms: int | None) -> None:
        """Read just these partitions, from `start`, or from the first record at or after `at_ms`."""
        wanted = [self._there(number) for number in dict.fromkeys(partitions)]
        self.consumer.assign(wanted)
        for partition, offset in (
            self._offsets_at(wanted, at_ms) if at_ms is not None else dict.fromkeys(wanted, start)
        ).items():
            self._seek(partition, offset)

    def subscribe(self, start: Start | None, at_ms: int | None) -> None:
        """Join the group; `start` and `at_ms` overrule what it has committed, for each partition
        once in this run.
        """
        from kafka import ConsumerRebalanceListener

        # Looked up now: the listener below runs on the client's own thread, where nothing may wait
        # for an answer.
        first = self._offsets_at(self._all(), at_ms) if at_ms is not None else dict.fromkeys(self._all(), start)
        reader = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
                for partition in assigned:
                    reader._forget(partition)
                    reader._seek(partition, first.pop(partition, None))

            def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
                reader._hand_over(revoked)

        self.consumer.subscribe([self.topic], listener=Listener())

    def run(self) -> None:
        """Print records until one of the ends is reached: the count, the silence, Ctrl-C, a closed
        pipe.
        """
        try:
            self._loop()
        except BrokenPipeError:
            _forget_stdout()

    def stop(self) -> None:
        """End `run` soon; what is being printed is printed in full."""
        self._stop.set()

    def close(self) -> None:
        """Commit what was printed and leave the group, so that its other members take over at once.

        Raises: ClickException: it could not be committed, and will come again.
        """
        from kafka.errors import KafkaError

        if self._consumer is None:
            return
        try:
            self._commit_at_last()
        except KafkaError as error:
            raise click.ClickException(
                f"what was printed last could not be committed and will come again: {explain(error)}"
            ) from None
        finally:
            self._consumer.close(autocommit=False, timeout_ms=ANSWER_TIMEOUT_MS)

    def _loop(self) -> None:
        from kafka.errors import KafkaError

        began_s = silent_since_s = time.monotonic()
        while not self._stop.is_set() and (self.max_messages is None or self.printed < self.max_messages):
            wanted = POLL_RECORDS if self.max_messages is None else min(POLL_RECORDS, self.max_messages - self.printed)
            batches = self.consumer.poll(timeout_ms=POLL_MS, max_records=wanted)
            self._next.update(
                {partition: records[0].offset for partition, records in batches.items()}
            )  # if it can't be printed
            for partition, records in batches.items():
                self.out.writelines(map(self.write, records))
                self.out.flush()
                self.printed += len(records)
                self._next[partition] = records[-1].offset + 1
            now_s = time.monotonic()
            if batches or self._is_joining(now_s - began_s):
                silent_since_s = now_s
            elif self.timeout_ms is not None and (now_s - silent_since_s) * 1000 >= self.timeout_ms:
                return
            if now_s >= self._next_commit_s:
                self._next_commit_s = now_s + COMMIT_EVERY_S
                with contextlib.suppress(KafkaError):  # a broker that is away may come back; at the end it counts
                    self._commit()

    def _is_joining(self, since_s: float) -> bool:
        """Whether the group has given us nothing yet, and may be about to: that is no silence of
        the topic's.
        """
        self._joined = self._joined or bool(self.consumer.assignment())
        return not self._joined and since_s < JOIN_S

    def _commit(self) -> None:
        """Commit for each of our partitions what is to be read next, even where nothing has been
        read yet: a group that has begun at the end of a partition must not miss what comes in
        before it reads again.
        """
        if not self._in_group:
            return
        ours = self.consumer.assignment()
        for partition in ours - set(self._next):
            self._next[partition] = self.consumer.position(partition, timeout_ms=ANSWER_TIMEOUT_MS)
        changed = self._changed(ours)
        if changed:
            self.consumer.commit(_as_commit(changed), timeout_ms=ANSWER_TIMEOUT_MS)
            self._committed.update(changed)

    def _commit_at_last(self) -> None:
        """Commit; where the group is just rebalancing (another member leaves too), go along with it
        and commit then.

        What a poll brings meanwhile is not printed, so nothing but what had been printed before is
        committed.
        """
        from kafka.errors import CommitFailedError, IllegalGenerationError, RebalanceInProgressError

        deadline_s = time.monotonic() + JOIN_S
        try:
            self._commit()
            return
        except (CommitFailedError, IllegalGenerationError, RebalanceInProgressError):
            printed = self._changed(self.consumer.assignment())
        while printed:
            self.consumer.poll(timeout_ms=POLL_MS, max_records=1)
            ours = {
                partition: offset for partition, offset in printed.items() if partition in self.consumer.assignment()
            }
            try:
                if ours:
                    self.consumer.commit(_as_commit(ours), timeout_ms=ANSWER_TIMEOUT_MS)
                    return
            except (CommitFailedError, IllegalGenerationError, RebalanceInProgressError):
                if time.monotonic() >= deadline_s:
                    raise
            if (self.consumer.assignment() and not ours) or time.monotonic() >= deadline_s:
                return  # the partitions are another's now; they were handed over

    def _hand_over(self, revoked: Iterable[TopicPartition]) -> None:
        """Commit before the next owner asks; the request goes out ahead of our joining again, on
        the same connection.
        """
        changed = self._changed(revoked)
        if changed:
            self.consumer.commit_async(_as_commit(changed))
        for partition in revoked:
            self._forget(partition)

    def _forget(self, partition: TopicPartition) -> None:
        """Another member may read and commit it meanwhile."""
        self._next.pop(partition, None)
        self._committed.pop(partition, None)

    def _changed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        known = {partition: self._next[partition] for partition in partitions if partition in self._next}
        return {partition: offset for partition, offset in known.items() if offset != self._committed.get(partition)}

    def _seek(self, partition: TopicPartition, start: Start | None) -> None:
        if start == "earliest":
            self.consumer.seek_to_beginning(partition)
        elif start == "latest":
            self.consumer.seek_to_end(partition)
        elif isinstance(start, int) and start < 0:
            first, end = self.consumer.beginning_offsets([partition]), self.consumer.end_offsets([partition])
            self.consumer.seek(partition, max(first[partition], end[partition] + start))
        elif start is not None:
            self.consumer.seek(partition, start)

    def _offsets_at(self, partitions: Iterable[TopicPartition], at_ms: int) -> dict[TopicPartition, Start]:
        """Where the records of this time begin; the end of a partition that has none so late."""
        found = self.consumer.offsets_for_times(dict.fromkeys(partitions, at_ms))
        return {partition: "latest" if place is None else place.offset for partition, place in found.items()}

    def _all(self) -> list[TopicPartition]:
        """All partitions of the topic. Raises ClickException: there is no such topic."""
        from kafka import TopicPartition

        numbers = self.consumer.partitions_for_topic(self.topic)
        if not numbers:
            raise click.ClickException(
                f"there is no topic {self.topic!r}; `kqueue topics list` shows what is there, `kqueue topics create {self.topic}` makes it"
            )
        return [TopicPartition(self.topic, number) for number in sorted(numbers)]

    def _there(self, number: int) -> TopicPartition:
        partitions = self._all()
        if number >= len(partitions):
            raise click.BadParameter(
                f"{self.topic} has the partitions 0 to {len(partitions) - 1}", param_hint="--partition"
            )
        return partitions[number]


def _as_commit(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
    from kafka.structs import OffsetAndMetadata

    return {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()}


def _forget_stdout() -> None:
    """The reader of our pipe has gone (``| head``): nothing more can be written, not even by
    Python's own flush at the end.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
