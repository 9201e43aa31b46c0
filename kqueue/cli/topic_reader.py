"""The consumer of `kqueue consume`: start position, end conditions, commits of printed records."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from kqueue.base.clock import monotonic_s
from kqueue.cli.connect import explain
from kqueue.cli.exit_status import discard_output
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
REFRESH_S = 5.0


def take_up_join(consumer: KafkaConsumer) -> None:
    """Have the next poll go on with a join that outlasted the last one.

    kafka-python 3.0 forgets a join that began because the partitions of the topic changed, and is
    deaf then: its member is alive, and gets no records.
    """
    coordinator = consumer._coordinator
    if coordinator.rejoining and not coordinator.need_rejoin():
        coordinator.request_rejoin()


class ReaderLimits(NamedTuple):
    """The conditions that end a run.

    `max_messages`: after so many records. `timeout_ms`: when none has arrived for so long.
    `exit_eof`: when all partitions are read to the end that they had at the beginning.
    """

    max_messages: int | None = None
    timeout_ms: int | None = None
    exit_eof: bool = False


class TopicReader:
    """One run of `consume`. It commits only records that standard output has accepted.

    Args:
        missing: returns the message for a topic that does not exist.
    """

    def __init__(
        self,
        topic: str,
        write: Callable[[ConsumedRecord], bytes],
        out: BinaryIO,
        limits: ReaderLimits,
        missing: Callable[[], str],
    ) -> None:
        self.topic = topic
        self.write = write
        self.out = out
        self.max_messages = limits.max_messages
        self.timeout_ms = limits.timeout_ms
        self.exit_eof = limits.exit_eof
        self.missing = missing
        self.printed = 0
        self._ends: dict[TopicPartition, int] = {}
        self._reads_all = False
        self._next_refresh_s = 0.0
        self._in_group = False
        self._joined = False
        self._next: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._stop = threading.Event()
        self._consumer: KafkaConsumer | None = None
        self._next_commit_s = 0.0

    def open(self, options: dict[str, Any]) -> None:
        """Create the client with the options of kafka-python's KafkaConsumer."""
        from kafka import KafkaConsumer

        self._consumer = KafkaConsumer(**options)
        self._in_group = options["group_id"] is not None

    @property
    def consumer(self) -> KafkaConsumer:
        """The client, after `open`."""
        assert self._consumer is not None, "open() comes first"
        return self._consumer

    def assign(self, partitions: Iterable[int], start: Start, at_ms: int | None) -> None:
        """Read these partitions, or all, from `start`, or from the first record since `at_ms`.

        Partitions that the topic gets later are read from their beginning.
        Raises: ClickException: there is no such topic. BadParameter: no such partition, or offset.
        """
        numbers = list(dict.fromkeys(partitions))
        self._reads_all = not numbers
        assigned = [self._existing(number) for number in numbers] or self._partitions()
        self._next_refresh_s = monotonic_s() + REFRESH_S
        self.consumer.assign(assigned)
        for partition, offset in (
            self._offsets_at(assigned, at_ms) if at_ms is not None else dict.fromkeys(assigned, start)
        ).items():
            self._seek(partition, self._checked_offset(partition, offset))

    def subscribe(self, start: Start | None, at_ms: int | None) -> None:
        """Join the group.

        `start` and `at_ms` override the committed offset, once per partition in this run.
        """
        from kafka import ConsumerRebalanceListener

        # Looked up here, because the listener runs on the client's thread and must not wait for a
        # response.
        starts = (
            self._offsets_at(self._partitions(), at_ms)
            if at_ms is not None
            else dict.fromkeys(self._partitions(), start)
        )
        reader = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
                for partition in assigned:
                    reader._drop(partition)
                    reader._seek(partition, starts.pop(partition, None))

            def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
                reader._commit_revoked(revoked)

        self.consumer.subscribe([self.topic], listener=Listener())
        # kafka-python 3.0 forgets the partitions when it subscribes. It would join without, then
        # again, and lose its assignment if the second join outlasts a poll.
        self.consumer.topics()

    def run(self) -> None:
        """Print records until the count, the idle timeout, Ctrl-C or a closed pipe ends the run."""
        try:
            self._loop()
        except BrokenPipeError:
            discard_output()

    def stop(self) -> None:
        """Make `run` return after the records that it is printing."""
        self._stop.set()

    def close(self) -> None:
        """Commit the printed records and leave the group, so that other members take over at once.

        Raises: ClickException: the commit failed; the records will be delivered again.
        """
        from kafka.errors import KafkaError

        if self._consumer is None:
            return
        try:
            self._commit_before_leaving()
        except KafkaError as error:
            raise click.ClickException(
                f"the last printed records could not be committed and will be delivered again: {explain(error)}"
            ) from None
        finally:
            self._consumer.close(autocommit=False, timeout_ms=ANSWER_TIMEOUT_MS)

    def _loop(self) -> None:
        from kafka.errors import KafkaError

        began_s = idle_since_s = monotonic_s()
        while not self._stop.is_set() and (self.max_messages is None or self.printed < self.max_messages):
            poll_max = (
                POLL_RECORDS if self.max_messages is None else min(POLL_RECORDS, self.max_messages - self.printed)
            )
            batches = self.consumer.poll(timeout_ms=POLL_MS, max_records=poll_max)
            self._next.update(
                {partition: records[0].offset for partition, records in batches.items()}
            )  # where to resume if printing fails
            for partition, records in batches.items():
                self.out.writelines(map(self.write, records))
                self.out.flush()
                self.printed += len(records)
                self._next[partition] = records[-1].offset + 1
            take_up_join(self.consumer)
            now_s = monotonic_s()
            if self._reads_all and now_s >= self._next_refresh_s:
                self._next_refresh_s = now_s + REFRESH_S
                self._add_new_partitions()
            if self.exit_eof and self._is_at_end(now_s - began_s):
                return
            if batches or self._is_joining(now_s - began_s):
                idle_since_s = now_s
            elif self.timeout_ms is not None and (now_s - idle_since_s) * 1000 >= self.timeout_ms:
                return
            if now_s >= self._next_commit_s:
                self._next_commit_s = now_s + COMMIT_EVERY_S
                with contextlib.suppress(KafkaError):  # the broker may come back; the last commit reports an error
                    self._commit()

    def _add_new_partitions(self) -> None:
        """Read partitions that the topic did not have, from their beginning."""
        from kafka import TopicPartition

        assigned = self.consumer.assignment()
        known = self.consumer.partitions_for_topic(self.topic) or set()  # kafka-python refreshes it
        new = {TopicPartition(self.topic, number) for number in known} - assigned
        if new:
            self.consumer.assign(sorted(assigned | new))
            for partition in new:
                self.consumer.seek_to_beginning(partition)

    def _is_at_end(self, since_s: float) -> bool:
        """Return whether all assigned partitions are read to the end that they had when they came.

        Positions skip control records and aborted transactions, so they reach the end too.
        """
        if self._in_group and self._is_joining(since_s):
            return False
        assigned = self.consumer.assignment()
        new = [partition for partition in assigned if partition not in self._ends]
        if new:
            self._ends.update(self.consumer.end_offsets(new))
        return all(
            self.consumer.position(partition, timeout_ms=ANSWER_TIMEOUT_MS) >= self._ends[partition]
            for partition in assigned
        )

    def _checked_offset(self, partition: TopicPartition, start: Start) -> Start:
        """Return `start`, or the log start for an offset below it, which is reported.

        Raises: BadParameter: it is beyond the end; the client would silently begin elsewhere.
        """
        if not isinstance(start, int) or start < 0:
            return start
        end = self.consumer.end_offsets([partition])[partition]
        first = self.consumer.beginning_offsets([partition])[partition]
        name = f"{partition.topic}-{partition.partition}"
        if start > end:
            held = f"it holds the offsets {first} to {end - 1}" if end > first else "it holds no records"
            raise click.BadParameter(
                f"{start} is beyond the end of {name}: {held}, and the next one is {end}", param_hint="--offset"
            )
        if start < first:
            click.echo(f"Offset {start} of {name} is deleted; reading starts at its first record, {first}.", err=True)
        return max(start, int(first))

    def _is_joining(self, since_s: float) -> bool:
        """Whether the group has not assigned partitions yet; the idle timeout starts after that."""
        self._joined = self._joined or bool(self.consumer.assignment())
        return not self._joined and since_s < JOIN_S

    def _commit(self) -> None:
        """Commit the next offset of each assigned partition, read or not.

        A group that started at the end of a partition would otherwise miss records that arrive
        before its next run.
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

    def _commit_before_leaving(self) -> None:
        """Commit; if the group is rebalancing, rejoin it and commit then.

        Records that a poll returns meanwhile are not printed, and not committed.
        """
        from kafka.errors import CommitFailedError, IllegalGenerationError, RebalanceInProgressError

        deadline_s = monotonic_s() + JOIN_S
        try:
            self._commit()
            return
        except (CommitFailedError, IllegalGenerationError, RebalanceInProgressError):
            printed = self._changed(self.consumer.assignment())
        while printed:
            self.consumer.poll(timeout_ms=POLL_MS, max_records=1)
            take_up_join(self.consumer)
            ours = {
                partition: offset for partition, offset in printed.items() if partition in self.consumer.assignment()
            }
            try:
                if ours:
                    self.consumer.commit(_as_commit(ours), timeout_ms=ANSWER_TIMEOUT_MS)
                    return
            except (CommitFailedError, IllegalGenerationError, RebalanceInProgressError):
                if monotonic_s() >= deadline_s:
                    raise
            if (self.consumer.assignment() and not ours) or monotonic_s() >= deadline_s:
                return  # another member owns the partitions now; they were committed before

    def _commit_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Commit revoked partitions; the request precedes the rejoin on the same connection."""
        changed = self._changed(revoked)
        if changed:
            self.consumer.commit_async(_as_commit(changed))
        for partition in revoked:
            self._drop(partition)

    def _drop(self, partition: TopicPartition) -> None:
        """Drop the position of a partition that another member may read and commit."""
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
        """Return the first offset at or after `at_ms`, or the end of a partition without one."""
        offsets = self.consumer.offsets_for_times(dict.fromkeys(partitions, at_ms))
        return {partition: "latest" if entry is None else entry.offset for partition, entry in offsets.items()}

    def _partitions(self) -> list[TopicPartition]:
        """Return all partitions of the topic. Raises ClickException: there is no such topic."""
        from kafka import TopicPartition

        numbers = self.consumer.partitions_for_topic(self.topic)
        if not numbers:
            raise click.ClickException(self.missing())
        return [TopicPartition(self.topic, number) for number in sorted(numbers)]

    def _existing(self, number: int) -> TopicPartition:
        partitions = self._partitions()
        if number >= len(partitions):
            raise click.BadParameter(
                f"{self.topic} has the partitions 0 to {len(partitions) - 1}", param_hint="--partition"
            )
        return partitions[number]


def _as_commit(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
    from kafka.structs import OffsetAndMetadata

    return {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()}
