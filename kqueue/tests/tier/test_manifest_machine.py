"""The manifest against a plain list of segments: copies, deletions, claims, lost answers."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kqueue.testing.tier_faults import FaultyTierStore, TierFault, lost_answer, unavailable
from kqueue.tests.thorough import examples
from kqueue.tests.tier.segment_entries import entry
from kqueue.tests.tier.tiered_logs import ORDERS, keys_named_by
from kqueue.tier import manifest as manifest_module
from kqueue.tier.errors import LeaderFenced, ObjectChanged, TierCorrupt, TierUnavailable
from kqueue.tier.formats import manifest_root
from kqueue.tier.formats.segments import EpochEntry, TieredSegment
from kqueue.tier.lineage import Lineage
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.memory import MemoryTierStore


def _changed(call: object) -> None:
    raise ObjectChanged(f"{call}: the put took place, and was sent again, as its answer was lost")


FAULTS = [
    TierFault("put_if", after=_changed),
    lost_answer("put_if"),
    unavailable("put_if"),
    lost_answer("put"),
    unavailable("put"),
    lost_answer("delete"),
    unavailable("delete"),
    unavailable("get"),
]


class ManifestMachine(RuleBasedStateMachine):
    """`segments`: what the tier has. `epochs`, `log_end`: of the leader's log. `removed_below`: up
    to where the tier had segments that were deleted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.store = FaultyTierStore(MemoryTierStore())
        self.rng = random.Random(1)
        self.segments: list[TieredSegment] = []
        self.epoch = 0
        self.epochs: list[EpochEntry] = []
        self.log_end = self.log_start = self.removed_below = 0
        self.manifest = Manifest.open(self.store, ORDERS)
        self.follower = Manifest.open(self.store, ORDERS)
        self.former: list[tuple[Manifest, int]] = []
        self.pending: list[tuple[TierFault, int]] = []
        self.has_failed = False

    @initialize()
    def begin(self) -> None:
        self.manifest.claim(self.epoch, Lineage([], self.epoch, 0))

    @rule(fault=st.sampled_from(FAULTS), times=st.integers(1, 2))
    def fail_next(self, fault: TierFault, times: int) -> None:
        self.pending.append((fault, times))

    def begin_change(self) -> None:
        while self.pending:
            self.has_failed = True
            fault, times = self.pending.pop()
            self.store.fail(fault, times=times)

    # --- the leader

    @rule(length=st.integers(1, 5), time=st.integers(-1, 50))
    def copy(self, length: int, time: int) -> None:
        start = max(self.log_end, self.manifest.end_offset)
        if not self.epochs or self.epochs[-1][0] != self.epoch:
            self.epochs.append((self.epoch, start))
        self.begin_change()
        for _ in range(8):
            segment = entry(
                start,
                start + length,
                object_id=f"{self.rng.getrandbits(128):032x}",
                epochs=((self.epoch, start),),
                max_timestamp=time,
                leader_epoch=self.epoch,
            )
            self.segments.append(segment)
            try:
                self.manifest.begin_copy(self.epoch, segment)
                self.store.put(segment.key(ORDERS), [b"x"], 1)
                self.manifest.finish_copy(self.epoch, segment)
                break
            except TierUnavailable:
                self.segments.pop()
                unfinished = segment
            except ObjectChanged:  # the copy before took place
                self.segments[-1] = unfinished
                break
        self.log_end = start + length

    @rule(offset=st.integers(0, 20))
    def announce_only(self, offset: int) -> None:
        self.begin_change()
        start = max(self.log_end, self.manifest.end_offset) + offset
        segment = entry(start, start + 1, object_id=f"{self.rng.getrandbits(128):032x}")
        leaves_gap = start > max(self.manifest.end_offset, self.log_start)
        with pytest.raises(TierCorrupt) if leaves_gap else contextlib.nullcontext():
            self.retry(lambda: self.manifest.begin_copy(self.epoch, segment))

    @rule(part=st.floats(0, 1.1), delete=st.booleans())
    def raise_start(self, part: float, delete: bool) -> None:
        offset = int(part * self.log_end)
        self.begin_change()
        self.retry(lambda: self.manifest.raise_start(self.epoch, offset))
        self.log_start = max(self.log_start, offset)
        if delete:
            while self.retry(lambda: self.manifest.delete_below_start(self.epoch)):
                pass
            for segment in [each for each in self.segments if each.end_offset <= self.log_start]:
                self.segments.remove(segment)
                self.removed_below = segment.end_offset

    @rule(part=st.floats(0, 1), is_clean=st.booleans(), same_object=st.booleans())
    def claim(self, part: float, is_clean: bool, same_object: bool) -> None:
        """A new leader, whose log has a part of the records."""
        if not is_clean:
            self.log_end = int(part * self.log_end)
            self.epochs = [each for each in self.epochs if each[1] < self.log_end]
            self.segments = [each for each in self.segments if each.start_offset < self.log_end]
            if self.segments and self.segments[-1].end_offset > self.log_end:
                self.segments[-1] = self.segments[-1].cut(self.log_end)
            # The log start is within what the log and the tier have now.
            tiered_end = self.segments[-1].end_offset if self.segments else 0
            self.log_start = min(self.log_start, max(self.log_end, tiered_end))
            self.removed_below = self.removed_below if self.segments else min(self.removed_below, self.log_start)
        self.former.append((self.manifest, self.epoch))
        self.begin_change()
        self.epoch += 1
        if not same_object:
            self.manifest = Manifest(self.store, ORDERS)
            self.retry(self.manifest.refresh)
        lineage = Lineage(self.epochs, self.epoch, self.log_end)
        self.retry(lambda: self.manifest.claim(self.epoch, lineage))
        assert self.manifest.root.copying == self.manifest.root.deleting == ()
        assert self.manifest.root.log_start_offset == self.log_start
        self.log_end = max(self.log_end, self.manifest.end_offset)

    @rule()
    def restart(self) -> None:
        """The leader, with an empty log."""
        self.epoch += 1
        self.begin_change()
        self.retry(lambda: self.manifest.claim(self.epoch, None))

    @rule(number=st.integers(0, 100))
    def former_leader_is_fenced(self, number: int) -> None:
        if self.former:
            manifest, epoch = self.former[number % len(self.former)]
            segment = entry(manifest.end_offset, manifest.end_offset + 60)
            self.store.mend()
            for change in [
                lambda: manifest.begin_copy(epoch, segment),
                lambda: manifest.raise_start(epoch, 10**6),
                lambda: manifest.claim(epoch, Lineage([], epoch, 0)),
            ]:
                with pytest.raises(LeaderFenced):
                    change()

    def retry(self, call):  # type: ignore[no-untyped-def]
        for _ in range(8):
            try:
                return call()
            except TierUnavailable:
                continue
        self.store.mend()
        return call()

    # --- readers

    @rule()
    def follow(self) -> None:
        self.store.mend()
        self.follower.refresh()
        assert list(self.follower.segments()) == self.segments

    @rule(offset=st.integers(0, 200), time=st.integers(-1, 60))
    def look_up(self, offset: int, time: int) -> None:
        self.store.mend()
        following = [each for each in self.segments if each.end_offset > offset]
        assert self.manifest.find(offset) == next(iter(following), None)
        late = [each for each in following if each.max_timestamp >= time]
        assert list(self.manifest.segments(offset, min_timestamp=time)) == late

    @invariant()
    def holds_the_segments_of_the_model(self) -> None:
        self.store.mend()
        manifest = self.manifest
        assert list(manifest.segments()) == self.segments
        assert manifest.root.size == sum(each.size for each in self.segments)
        assert manifest.root.count == len(self.segments)
        assert len(manifest.root.copying) <= 1
        ends = [each.end_offset for each in self.segments]
        assert manifest.end_offset == (ends[-1] if ends else self.removed_below)
        assert manifest.latest() == (self.segments[-1] if self.segments else None)
        # The start may be in a gap before the first segment that is to be read.
        readable = [each for each in self.segments if each.end_offset > self.log_start]
        assert manifest.find(manifest.start_offset) == next(iter(readable), None)
        assert self.removed_below <= manifest.start_offset <= manifest.end_offset

    @invariant()
    def store_has_the_named_objects_and_no_others(self) -> None:
        named = keys_named_by(self.store, self.manifest)
        keys = {each.key for each in self.store.inner.list("")}
        assert {each.key(ORDERS) for each in self.segments} <= keys
        # Only a page whose put, or the change after it, failed may be left.
        assert {key for key in keys - named if "/pages/" not in key or not self.has_failed} == set()


def test_manifest_holds_what_a_list_of_segments_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "PAGE_ITEMS", 2)
    monkeypatch.setattr(manifest_module, "LIST_ITEMS_MAX", 4)
    monkeypatch.setattr(manifest_module, "PAGES_CACHED", 3)
    monkeypatch.setattr(manifest_root, "DELETING_MAX", 9)
    run_state_machine_as_test(
        ManifestMachine, settings=settings(max_examples=examples(150, 20), stateful_step_count=40, deadline=None)
    )
