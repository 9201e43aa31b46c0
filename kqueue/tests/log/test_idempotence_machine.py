"""Idempotent producers against a model: what was appended, what a repetition is answered, and what
is refused. Source: KIP-98, KIP-360, Kafka's ProducerAppendInfo.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kqueue.base.errors import InvalidProducerEpoch, KqueueError, OutOfOrderSequence
from kqueue.log.log import Log
from kqueue.log.producer_state import SEQUENCE_MAX
from kqueue.storage import MemoryStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append, check_log, open_log, read_values
from kqueue.tests.thorough import examples

REMEMBERED = 5
EXPIRATION_MS = 10_000
CONFIG = {"segment_bytes": 600}


@dataclass
class Batch:
    """A batch of the model; `last` is its last sequence."""

    first: int
    last: int
    offset: int


@dataclass
class Known:
    """The expected state of a producer in the log; `batches`: of its epoch, newest last."""

    epoch: int
    seen_ms: int
    batches: list[Batch] = field(default_factory=list)


class IdempotenceMachine(RuleBasedStateMachine):
    """`values`: all that should be in the log."""

    @initialize()
    def open(self) -> None:
        self.storage, self.clock = MemoryStorage(), ManualClock(START_MS)
        self.log: Log = open_log(self.storage, self.clock, **CONFIG)
        self.known: dict[int, Known] = {}
        self.values: list[bytes] = []

    def _expected(self, id: int, epoch: int, first: int, last: int) -> type[KqueueError] | Batch | None:
        """The error, the batch that is repeated, or None: it is appended."""
        known = self.known.get(id)
        if known is None:
            return None
        if epoch < known.epoch:
            return InvalidProducerEpoch
        if epoch > known.epoch:
            return None if first == 0 else OutOfOrderSequence
        for batch in known.batches[-REMEMBERED:]:
            if (batch.first, batch.last) == (first, last):
                return batch
        following = 0 if known.batches[-1].last == SEQUENCE_MAX else known.batches[-1].last + 1
        return None if first == following else OutOfOrderSequence

    def _send(self, id: int, epoch: int, first: int, count: int) -> None:
        last = (first + count - 1) % (SEQUENCE_MAX + 1)
        expected = self._expected(id, epoch, first, last)
        values = [b"%d-%d-%d-%d" % (id, epoch, first, len(self.values) + number) for number in range(count)]
        fields = {"producer_id": id, "epoch": epoch, "base_sequence": first, "step_ms": 0}
        if isinstance(expected, type):
            with pytest.raises(expected):
                append(self.log, *values, time_ms=self.clock.wall_ms(), **fields)
            return
        appended = append(self.log, *values, time_ms=self.clock.wall_ms(), **fields)
        assert appended.duplicate == (expected is not None)
        assert appended.base_offset == (len(self.values) if expected is None else expected.offset)
        assert appended.last_offset == appended.base_offset + count - 1
        if expected is None:
            known = self.known.get(id)
            if known is None or known.epoch != epoch:
                known = self.known[id] = Known(epoch, 0)
            known.seen_ms = self.clock.wall_ms()
            known.batches.append(Batch(first, last, len(self.values)))
            self.values += values

    @rule(id=st.integers(0, 2), count=st.integers(1, 4), times=st.integers(1, 7))
    def go_on(self, id: int, count: int, times: int) -> None:
        """Send the batches of a client without trouble."""
        for _ in range(times):
            known = self.known.get(id)
            epoch = known.epoch if known else 0
            last = known.batches[-1].last if known else SEQUENCE_MAX - 4
            self._send(id, epoch, (last + 1) % (SEQUENCE_MAX + 1), count)

    @rule(id=st.integers(0, 2), back=st.integers(1, 8), shorter=st.integers(0, 1))
    def repeat(self, id: int, back: int, shorter: int) -> None:
        """One of the last batches again, or one that only begins like it."""
        known = self.known.get(id)
        if known is not None and len(known.batches) >= back:
            batch = known.batches[-back]
            count = (batch.last - batch.first) % (SEQUENCE_MAX + 1) + 1
            self._send(id, known.epoch, batch.first, max(count - shorter, 1))

    @rule(id=st.integers(0, 3), epoch=st.integers(-1, 2), first=st.sampled_from([0, 1, 5, SEQUENCE_MAX]))
    def send_anything(self, id: int, epoch: int, first: int) -> None:
        known = self.known.get(id)
        self._send(id, max((known.epoch if known else 0) + epoch, 0), first, 2)

    @rule()
    def restart(self) -> None:
        """A snapshot holds the last batch of each producer."""
        self.log.close()
        end = self.log.end_offset
        clean = {"recovery_point": end, "clean": True, "producer_expiration_ms": EXPIRATION_MS}
        self.log = open_log(self.storage, self.clock, **clean, **CONFIG)
        now_ms = self.clock.wall_ms()
        self.known = {id: known for id, known in self.known.items() if now_ms - known.seen_ms < EXPIRATION_MS}
        for known in self.known.values():
            del known.batches[:-1]

    @rule(ms=st.sampled_from([1000, EXPIRATION_MS]))
    def expire(self, ms: int) -> None:
        self.clock.advance(ms)
        now_ms = self.clock.wall_ms()
        self.log.producers.expire(now_ms, EXPIRATION_MS)
        self.known = {id: known for id, known in self.known.items() if now_ms - known.seen_ms < EXPIRATION_MS}

    def teardown(self) -> None:
        if hasattr(self, "log"):
            assert read_values(self.log) == self.values
            check_log(self.log, forgotten=True)


IdempotenceMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
TestIdempotence = IdempotenceMachine.TestCase
