"""Samples of groups, share groups and transactions."""

from __future__ import annotations

from collections import Counter

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.broker import Broker
from kqueue.telemetry.lag_ages import LagAges
from kqueue.telemetry.samples import NameBound, Samples
from kqueue.transactions.transaction_state import TransactionState


class GroupSamples:
    """Reads the groups and transactions that a broker coordinates. Thread: the owner thread."""

    def __init__(self, broker: Broker, bound: NameBound) -> None:
        self._broker = broker
        self._bound = bound
        self._ages = LagAges()

    def read(self, samples: Samples) -> SlicedWork[None]:
        """Read all; yields after each partition of a group, and each transactional id."""
        yield from self._read_groups(samples)
        yield from self._read_share_groups(samples)
        yield from self._read_transactions(samples)

    def _read_groups(self, samples: Samples) -> SlicedWork[None]:
        groups = self._broker.coordinators.groups
        try:
            listed = groups.groups()
        except KqueueError:  # they are being loaded
            return
        for (type_, state), count in Counter((group.type.value, group.state) for group in listed).items():
            samples.add("kqueue_groups", count, type_, state)
        self._ages.begin()
        for label, name in self._bound.named("groups", sorted(group.group_id for group in listed)):
            if label is None:
                break
            samples.add("kqueue_group_members", groups.member_count(name), label)
            try:
                offsets = groups.offsets(name)
            except KqueueError:  # it is gone, or of a type without committed offsets
                continue
            # A copy: between two slices the group commits, and the view would be another one.
            committed = [
                (topic, index, one.offset) for topic, by_index in offsets.items() for index, one in by_index.items()
            ]
            for topic, index, offset in committed:
                self._read_lag(samples, label, topic, index, offset)
                yield None

    def _read_lag(self, samples: Samples, label: str, topic: str, index: int, committed: int) -> None:
        labels = label, topic, str(index)
        samples.add("kqueue_group_committed_offset", committed, *labels)
        end = self._end_offset(topic, index)
        if end is not None:
            samples.add("kqueue_group_lag", max(end - committed, 0), *labels)
            age_s = self._ages.age_s(topic, index, committed, end, monotonic_s())
            samples.add("kqueue_group_lag_age_seconds", age_s, *labels)

    def _end_offset(self, topic: str, index: int) -> int | None:
        """Return the high watermark of a partition; None: it is not here, or not open."""
        partitions = () if (here := self._broker.topics.find(topic)) is None else here.partitions
        return partitions[index].high_watermark if index < len(partitions) and partitions[index].is_open else None

    def _read_share_groups(self, samples: Samples) -> SlicedWork[None]:
        share = self._broker.share
        labels: dict[str, str] = {}
        for label, group in self._bound.named("share groups", sorted(share.groups_with_counts())):
            if label is None:
                break
            labels[group] = label
            counts = share.counts_of(group)
            samples.add("kqueue_share_records_in_flight", 0, label)
            samples.add("kqueue_share_delivered_records", counts.delivered, label)
            samples.add("kqueue_share_redelivered_records", counts.redelivered, label)
            samples.add("kqueue_share_given_up_records", counts.rejected, label, "rejected")
            samples.add("kqueue_share_given_up_records", counts.exhausted, label, "delivery count limit")
            samples.add("kqueue_share_dead_lettered_records", counts.dead_lettered, label)
            yield None
        for opened in share.in_use():
            if opened.share is not None and opened.key.group in labels:
                samples.count("kqueue_share_records_in_flight", opened.share.in_flight, labels[opened.key.group])
            yield None

    def _read_transactions(self, samples: Samples) -> SlicedWork[None]:
        transactions = self._broker.coordinators.transactions
        ended = transactions.ended
        samples.add("kqueue_transactions_ended", ended.commits, "commit")
        samples.add("kqueue_transactions_ended", ended.aborts, "abort")
        samples.add("kqueue_transactions_ended", ended.fences, "fence")
        states: Counter[str] = Counter()
        now_ms = oldest_ms = self._broker.scheduler.clock.wall_ms()
        try:
            for metadata in transactions.all():
                states[metadata.state.name] += 1
                if metadata.state is TransactionState.ONGOING:
                    oldest_ms = min(oldest_ms, metadata.start_ms)
                yield None
        except KqueueError:  # they are being loaded
            return
        for state, count in states.items():
            samples.add("kqueue_transactions", count, state)
        samples.add("kqueue_transaction_age_seconds_max", (now_ms - oldest_ms) / 1000)
