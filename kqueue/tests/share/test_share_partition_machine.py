"""Members do anything in any order, while time passes, writes stall or fail, and the broker dies.

The judge is a model that has one row for each record, and changes it as the answers say.
"""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kqueue.base.errors import KqueueError, StorageFailed
from kqueue.share.record_state import RecordState
from kqueue.share.share_partition import Acknowledgement, AcquireLimits, check_types
from kqueue.tests.share.support import ACCEPT, GAP, REJECT, RELEASE, RENEW, World
from kqueue.tests.thorough import examples

MEMBERS = st.sampled_from(["a", "b", "c"])
TYPES = st.sampled_from([ACCEPT, ACCEPT, RELEASE, REJECT, GAP, RENEW])
EIGHT_TYPES = st.lists(TYPES, min_size=8, max_size=8)
LOCK_MS, LIMIT, WINDOW = 1000, 3, 12
S = RecordState


class Row:
    """One record. `pending`: state and count after a write that is on its way."""

    def __init__(self) -> None:
        self.state = S.AVAILABLE
        self.count = 0
        self.member = ""
        self.until_ms = 0.0
        self.accepted = 0


class SharePartitionMachine(RuleBasedStateMachine):
    """A topic whose batches grow, read by three members."""

    @initialize()
    def begin(self) -> None:
        self.world = World(lock_duration_ms=LOCK_MS, delivery_count_limit=LIMIT, record_locks_max=WINDOW)
        self.rows: dict[int, Row] = {}
        self.batches: list[tuple[int, int]] = []
        self.end = 0
        self.log_start = 0
        self.open: list[tuple[str, list[tuple[int, int]]]] = []  # acknowledgements without an answer
        for size in (4, 1, 3):
            self.append(0, size)
        self.acquire("a", 4, False, 1)

    # --- the log

    @rule(gap=st.sampled_from([0, 0, 0, 1, 3]), size=st.integers(1, 5))
    def append(self, gap: int, size: int) -> None:
        first = self.end + gap
        self.batches.append((first, first + size - 1))
        self.end = first + size
        for offset in range(first, self.end):
            self.rows[offset] = Row()

    @precondition(lambda self: self.batches)
    @rule()
    def delete_records(self) -> None:
        first, last = self.batches.pop(0)
        self.log_start = last + 1
        for offset in range(first, last + 1):
            self.rows.pop(offset, None)
        self.world.partition.advance_start(self.log_start)

    # --- members

    @rule(member=MEMBERS, most=st.integers(1, 8), strict=st.booleans(), batch_size=st.integers(1, 4))
    def acquire(self, member: str, most: int, strict: bool, batch_size: int) -> None:
        offset = self.world.partition.next_fetch_offset()
        if offset is None:
            return
        read = [batch for batch in self.batches if batch[1] >= offset]
        acquired = self.world.partition.acquire(member, offset, read, AcquireLimits(most, strict, batch_size))
        total, former = 0, -1
        for first, last, count in acquired:
            assert first > former
            former = last
            for each in range(first, last + 1):
                row = self.rows[each]
                assert row.state is S.AVAILABLE, f"{each} is {row.state.name}"
                assert count == row.count + 1 <= LIMIT
                row.state, row.count, row.member = S.ACQUIRED, count, member
                row.until_ms = self.world.clock.monotonic_ms() + LOCK_MS
                total += 1
        assert not strict or total <= most

    @rule(member=MEMBERS, first=st.integers(0, 40), size=st.integers(1, 8), types=EIGHT_TYPES)
    def acknowledge(self, member: str, first: int, size: int, types: list[int]) -> None:
        self._acknowledge(member, first, first + size - 1, types[:size])

    @rule(member=MEMBERS, type=TYPES, single=st.booleans())
    def acknowledge_what_is_held(self, member: str, type: int, single: bool) -> None:
        busy = {each for _, spans in self.open for span in spans for each in range(span[0], span[1] + 1)}
        held = [
            offset
            for offset, row in self.rows.items()
            if row.state is S.ACQUIRED and row.member == member and offset not in busy
        ]
        if held:
            last = held[0]
            while last + 1 in held and not single:
                last += 1
            self._acknowledge(member, held[0], last, [type])

    def _acknowledge(self, member: str, first: int, last: int, types: list[int]) -> None:
        before = {offset: (row.state, row.member) for offset, row in self.rows.items()}
        start = self.world.partition.start_offset
        busy = {each for _, spans in self.open for span in spans for each in range(span[0], span[1] + 1)}
        acknowledgement = Acknowledgement(first, last, types)
        check_types([acknowledgement])

        def apply(error: KqueueError | None) -> None:
            if error is None:
                self._apply(first, last, types)

        answers: list[KqueueError | None] = []
        # a renewal writes nothing: its record may be acknowledged while others are written
        of_each = types * (last + 1 - first) if len(types) == 1 else types
        writes = [each for each, type in enumerate(of_each, first) if type != RENEW]
        entry = (member, [(each, each) for each in writes])
        self.open.append(entry)

        def done(error: KqueueError | None) -> None:
            self.open.remove(entry)
            answers.append(error)
            apply(error)

        self.world.partition.acknowledge(member, [acknowledgement], done)
        holds = all(
            before.get(each) == (S.ACQUIRED, member) and each not in busy for each in range(max(first, start), last + 1)
        )
        if answers and isinstance(answers[0], StorageFailed):
            return
        if last >= start and not holds:
            assert answers, "refused at once"
            assert answers[0] is not None
        elif answers:
            assert answers[0] is None

    def _apply(self, first: int, last: int, types: list[int]) -> None:
        for offset in range(first, last + 1):
            row = self.rows.get(offset)
            if row is None or row.state is not S.ACQUIRED:
                continue
            type = types[0] if len(types) == 1 else types[offset - first]
            if type == RENEW:
                row.until_ms = self.world.clock.monotonic_ms() + LOCK_MS
                continue
            if type == ACCEPT:
                row.state = S.ACKNOWLEDGED
                row.accepted += 1
                assert row.accepted == 1, f"{offset} was accepted twice"
            elif type == RELEASE and row.count < LIMIT:
                row.state = S.AVAILABLE
            else:
                row.state = S.ARCHIVED
            row.member = ""

    # --- time and failures

    @precondition(lambda self: not self.open)
    @rule(ms=st.sampled_from([1.0, 300.0, 1000.0]))
    def wait(self, ms: float) -> None:
        if self.world.log.hold or self.world.log.broken is not None:
            return
        self.world.advance(ms)
        now_ms = self.world.clock.monotonic_ms()
        for row in self.rows.values():
            if row.state is S.ACQUIRED and row.until_ms <= now_ms:
                row.state = S.AVAILABLE if row.count < LIMIT else S.ARCHIVED
                row.member = ""

    @precondition(lambda self: not self.open and not self.world.log.hold and self.world.log.broken is None)
    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        self.world.partition.release(member, lambda error: None)
        for row in self.rows.values():
            if row.state is S.ACQUIRED and row.member == member:
                row.state, row.member = (S.AVAILABLE if row.count < LIMIT else S.ARCHIVED), ""

    @rule(member=MEMBERS)
    def hold_writes(self, member: str) -> None:
        self.world.log.hold = True
        for type in (ACCEPT, REJECT):
            self.acknowledge_what_is_held(member, type, True)

    @rule(fails=st.booleans())
    def end_writes(self, fails: bool) -> None:
        self.world.log.broken = StorageFailed("the disk") if fails else None
        self.world.log.release()
        self.world.log.hold, self.world.log.broken = False, None
        self.world.log.release()

    @rule()
    def die(self) -> None:
        self.open.clear()
        self.world = self.world.restarted()
        self.world.partition.advance_start(self.log_start)
        states = {
            each: (known.state, known.delivery_count)
            for known in self.world.partition.ranges()
            for each in range(known.first, known.last + 1)
        }
        start = self.world.partition.start_offset
        for offset, row in self.rows.items():
            state, count = states.get(offset, (S.AVAILABLE if offset >= start else S.ARCHIVED, row.count))
            if row.state is S.ACKNOWLEDGED:
                assert offset < start or state is S.ACKNOWLEDGED, f"{offset} was accepted, and comes back"
            elif row.state in (S.AVAILABLE, S.ACQUIRED):
                assert offset >= start, f"{offset} is lost"
                assert state is S.AVAILABLE, f"{offset} is lost: {state.name}"
            row.count = count if offset in states else 0
            row.member = ""
            if row.state is S.ACQUIRED:
                row.state = S.AVAILABLE

    # --- what always holds

    @invariant()
    def memory_is_the_model(self) -> None:
        if not hasattr(self, "world"):
            return
        partition = self.world.partition
        end = partition.start_offset
        for each in partition.ranges():
            assert each.first == end <= each.last
            end = each.last + 1
            assert each.state in (S.ACQUIRED, S.AVAILABLE, S.ACKNOWLEDGED, S.ARCHIVED)
            for offset in range(each.first, end):
                row = self.rows.get(offset)
                if row is not None:
                    assert (row.state, row.member) == (each.state, each.member_id), offset
                    assert each.state is S.ARCHIVED or row.count == each.delivery_count, offset
        for offset, row in self.rows.items():
            if offset < partition.start_offset:
                assert row.state in (S.ACKNOWLEDGED, S.ARCHIVED), f"{offset} is lost: {row.state.name}"
            elif offset >= partition.end_offset:
                assert row.state is S.AVAILABLE
        assert self.world.locks.count == partition.end_offset - partition.start_offset

    @precondition(lambda self: not self.open and not self.world.log.hold)
    @invariant()
    def what_is_persisted_is_memory_without_the_acquisitions(self) -> None:
        state = self.world.restarted().state
        kept = {each: batch for batch in state.batches for each in range(batch.first, batch.last + 1)}
        start = max(state.start_offset, 0)
        for offset, row in self.rows.items():
            if row.state in (S.ACKNOWLEDGED, S.ARCHIVED):
                assert offset < start or kept[offset].state is row.state, offset
            else:
                assert offset >= start
                assert offset not in kept or kept[offset].state is S.AVAILABLE


SharePartitionMachine.TestCase.settings = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSharePartition = SharePartitionMachine.TestCase
