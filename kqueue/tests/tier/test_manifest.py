from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count, pairwise

import pytest

from kqueue.testing.tier_faults import (
    Crash,
    FaultyTierStore,
    TierCall,
    TierFault,
    crash_at,
    expired,
    lost_answer,
    slow,
)
from kqueue.tests.tables import for_each
from kqueue.tests.tier.segment_entries import entry
from kqueue.tests.tier.tiered_logs import ORDERS, keys_named_by
from kqueue.tier import manifest as manifest_module
from kqueue.tier.errors import LeaderFenced, ObjectChanged, ObjectNotFound, TierCorrupt, TierDenied, TierUnavailable
from kqueue.tier.formats.manifest_root import LIST_ITEMS_MAX, PAGE_ITEMS, ManifestRoot, PageRef, encode_root
from kqueue.tier.formats.segments import EPOCHS_MAX, TieredSegment
from kqueue.tier.lineage import Lineage
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.memory import MemoryTierStore


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_module, "PAGE_ITEMS", 2)
    monkeypatch.setattr(manifest_module, "LIST_ITEMS_MAX", 4)


def copy(store: FaultyTierStore | MemoryTierStore, manifest: Manifest, segment: TieredSegment) -> None:
    manifest.begin_copy(segment.leader_epoch, segment)
    store.put(segment.key(ORDERS), [b"x"], 1)
    manifest.finish_copy(segment.leader_epoch, segment)


def copy_until(
    store: FaultyTierStore | MemoryTierStore, manifest: Manifest, end: int, *, epoch: int = 0, step: int = 10
) -> None:
    for start in range(manifest.end_offset, end, step):
        copy(store, manifest, entry(start, start + step, leader_epoch=epoch, epochs=((epoch, start),)))


def leader(store: FaultyTierStore | MemoryTierStore, epoch: int = 0, *, end: int | None = None) -> Manifest:
    """Return the manifest, claimed by a leader whose log has all of the tier, or up to `end`."""
    manifest = Manifest.open(store, ORDERS)
    epochs = [each for segment in manifest.segments() for each in segment.epochs]
    rising = [each for number, each in enumerate(epochs) if not number or each[0] > epochs[number - 1][0]]
    manifest.claim(epoch, Lineage(rising, epoch, manifest.end_offset if end is None else end))
    return manifest


def spans(manifest: Manifest) -> list[tuple[int, int]]:
    return [(segment.start_offset, segment.end_offset) for segment in manifest.segments()]


# --- reading


def test_manifest_that_does_not_exist_is_empty() -> None:
    manifest = Manifest.open(MemoryTierStore(), ORDERS)
    assert not manifest.exists
    assert (manifest.start_offset, manifest.end_offset, manifest.latest()) == (0, 0, None)
    assert manifest.find(0) is None


def test_manifest_of_another_partition_is_refused() -> None:
    store = MemoryTierStore()
    store.put_if(ORDERS.manifest_key, encode_root(ManifestRoot(ORDERS._replace(partition=1))), None)
    with pytest.raises(TierCorrupt, match="the manifest of orders-0 is that of 'orders-1'"):
        Manifest.open(store, ORDERS)


def test_manifest_that_is_gone_is_not_taken_for_an_empty_one() -> None:
    store = MemoryTierStore()
    manifest = leader(store)
    copy_until(store, manifest, 10)
    store.delete([ORDERS.manifest_key])
    with pytest.raises(ObjectNotFound, match="the tier of orders-0 is gone"):
        manifest.refresh()
    with pytest.raises(ObjectNotFound, match="the tier of orders-0 is gone"):
        manifest.raise_start(0, 5)
    assert list(store.list("topics")) != []
    assert spans(manifest) == [(0, 10)]
    view = Manifest(store, ORDERS)
    view.root = manifest.root  # shown what another one has read
    with pytest.raises(ObjectNotFound, match="the tier of orders-0 is gone"):
        view.refresh()


@pytest.mark.usefixtures("small_pages")
def test_look_up_in_a_tree_reads_one_page_of_each_level() -> None:
    store = FaultyTierStore(MemoryTierStore())
    copy_until(store, leader(store), 1000)
    levels = len(Manifest.open(store, ORDERS).root.levels)
    assert levels > 3
    for offset in (0, 5, 333, 998, 999):
        manifest = Manifest.open(store, ORDERS)
        store.calls.clear()
        found = manifest.find(offset)
        assert found is not None
        assert found.start_offset == offset // 10 * 10
        assert len(store.calls) <= levels
    assert manifest.find(1000) is None


@pytest.mark.usefixtures("small_pages")
def test_look_up_by_time_reads_no_page_without_such_a_time() -> None:
    store = FaultyTierStore(MemoryTierStore())
    copy_until(store, leader(store), 1000)
    manifest = Manifest.open(store, ORDERS)
    store.calls.clear()
    assert [each.start_offset for each in manifest.segments(min_timestamp=1991)] == [990]
    assert store.calls == []


@pytest.mark.usefixtures("small_pages")
def test_damaged_page_is_refused() -> None:
    store = MemoryTierStore()
    copy_until(store, leader(store), 100)
    manifest = Manifest.open(store, ORDERS)
    for page in list(store.list(f"{ORDERS.prefix}/pages")):
        store.put(page.key, [b"kqueue"], 6)
    with pytest.raises(TierCorrupt, match="page .* of a manifest"):
        manifest.find(0)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.timeout(20)
def test_reader_does_not_wait_for_a_put() -> None:
    entered, released = threading.Event(), threading.Event()
    store = FaultyTierStore(MemoryTierStore())
    manifest = leader(store)
    copy_until(store, manifest, 100)
    manifest._pages.clear()
    store.fail(slow(lambda: (entered.set(), released.wait(10)), "put_if"))
    writer = threading.Thread(target=manifest.raise_start, args=(0, 5))
    writer.start()
    try:
        assert entered.wait(10)
        assert manifest.find(3) is not None
        assert len(list(manifest.segments())) == 10
        assert manifest.start_offset == 0
    finally:
        released.set()
        writer.join()
    assert manifest.start_offset == 5


# --- bounds


def test_bytes_written_per_copy_stay_flat_at_millions_of_segments() -> None:
    store = MemoryTierStore()
    offsets = count(0, 10)

    def page(segments: int) -> PageRef:
        start = next(offsets)
        return PageRef(f"{start:032x}", start, start + 10, 2**40, 2**40, segments)

    heights = [PAGE_ITEMS**level for level in (4, 3, 2, 1)]
    upper = [tuple(page(height) for _ in range(LIST_ITEMS_MAX - 1)) for height in heights]
    number = sum(height * (LIST_ITEMS_MAX - 1) for height in heights)
    assert number > 10**6
    root = ManifestRoot(ORDERS, leader_epoch=0, levels=tuple(reversed(upper)), size=2**60, count=number)
    store.put_if(ORDERS.manifest_key, encode_root(root), None)

    class Counting(FaultyTierStore):
        written = 0

        def put(self, key, parts, size):  # type: ignore[no-untyped-def]
            self.written += size
            super().put(key, parts, size)

        def put_if(self, key, body, expected):  # type: ignore[no-untyped-def]
            self.written += len(body)
            return super().put_if(key, body, expected)

    counting = Counting(store)
    manifest = Manifest.open(counting, ORDERS)
    per_copy = []
    for _ in range(100):
        counting.written = 0
        copy_until(counting, manifest, manifest.end_offset + 10)
        per_copy.append(counting.written)
    assert manifest.root.count == number + 100
    assert sum(per_copy) / len(per_copy) < 150_000
    assert max(per_copy) < 300_000  # a page of each level
    assert len(counting.calls) < 6 * 100


def test_epochs_of_many_leaders_go_into_pages_early() -> None:
    store = MemoryTierStore()
    manifest = leader(store)
    for start in range(0, 6 * EPOCHS_MAX, EPOCHS_MAX):
        epochs = tuple((offset, offset) for offset in range(start, start + EPOCHS_MAX))
        copy(store, manifest, entry(start, start + EPOCHS_MAX, epochs=epochs))
    assert spans(Manifest.open(store, ORDERS)) == spans(manifest)
    assert all(len(store.get(each.key, max_bytes=1 << 20).body) < 1 << 20 for each in store.list("topics"))


def test_entry_that_could_not_be_read_again_is_not_announced() -> None:
    store = MemoryTierStore()
    manifest = leader(store)
    epochs = tuple((offset, offset) for offset in range(EPOCHS_MAX + 1))
    with pytest.raises(TierCorrupt, match="pairs of a leader epoch and an offset"):
        manifest.begin_copy(0, entry(0, EPOCHS_MAX + 1, epochs=epochs))
    assert Manifest.open(store, ORDERS).root.copying == ()


def test_root_that_could_not_be_read_again_is_not_written() -> None:
    store = MemoryTierStore()
    root = ManifestRoot(ORDERS, leader_epoch=0, log_start_offset=50, segments=(entry(0, 10),), size=5, count=1)
    store.put_if(ORDERS.manifest_key, encode_root(root), None)  # its size is less than that of its segment
    manifest = Manifest.open(store, ORDERS)
    with pytest.raises(TierCorrupt, match="'size', found -995"):
        manifest.delete_below_start(0)
    assert Manifest.open(store, ORDERS).root == root


def test_denied_deletions_do_not_pile_up() -> None:
    store = FaultyTierStore(MemoryTierStore())
    manifest = leader(store)
    copy_until(store, manifest, 100)
    manifest.raise_start(0, 50)
    store.fail(expired("delete"))
    for epoch in range(1, 300):
        with pytest.raises(TierDenied):
            manifest.delete_below_start(epoch)
        with pytest.raises(TierDenied):
            manifest.claim(epoch, Lineage([(0, 0)], epoch, 100 - epoch))
        with pytest.raises(TierDenied):
            manifest.begin_copy(epoch, entry(1000 + epoch, 2000))
    store.mend()
    manifest.claim(300, Lineage([(0, 0)], 300, 100))
    assert {each.key for each in store.list("")} == keys_named_by(store, manifest)


# --- leaders


def test_later_leader_wins_and_the_deposed_one_is_fenced() -> None:
    store = MemoryTierStore()
    old = leader(store, 1)
    copy_until(store, old, 30, epoch=1)
    new = leader(store, 2)
    copy_until(store, new, 40, epoch=2)
    for change in (
        lambda: old.begin_copy(1, entry(30, 50, leader_epoch=1)),
        lambda: old.finish_copy(1, entry(30, 50, leader_epoch=1)),
        lambda: old.raise_start(1, 20),
        lambda: old.claim(1, None),
    ):
        with pytest.raises(LeaderFenced, match="the leader of epoch 2 writes the manifest, this one is of epoch 1"):
            change()
    assert spans(old) == spans(new) == [(0, 10), (10, 20), (20, 30), (30, 40)]


def test_leader_that_returns_is_fenced_in_its_former_epoch() -> None:
    store = MemoryTierStore()
    manifest = leader(store, 1)
    manifest.claim(3, None)
    with pytest.raises(LeaderFenced):
        manifest.begin_copy(1, entry(0, 10, leader_epoch=1))


def test_claim_cuts_what_an_unclean_election_has_undone() -> None:
    store = MemoryTierStore()
    copy_until(store, leader(store, 1), 1000, epoch=1)
    manifest = leader(store, 2, end=123)
    assert spans(manifest) == [*((start, start + 10) for start in range(0, 120, 10)), (120, 123)]
    newest = manifest.latest()
    assert newest is not None
    assert newest.is_cut
    assert {each.key for each in store.list("")} == keys_named_by(store, manifest)
    copy_until(store, manifest, 133, epoch=2)
    assert spans(manifest)[-2:] == [(120, 123), (123, 133)]


@for_each("end, start, tier_end", [(80, 80, 80), (92, 92, 90), (97, 95, 90), (100, 95, 90)])
def test_claim_of_a_log_that_ends_before_the_log_start_lowers_it(end: int, start: int, tier_end: int) -> None:
    store = MemoryTierStore()
    manifest = leader(store, 1)
    copy_until(store, manifest, 90, epoch=1)
    manifest.raise_start(1, 95)
    manifest.delete_below_start(1)  # all of it
    claimed = leader(store, 2, end=end)
    assert (claimed.root.log_start_offset, claimed.end_offset) == (start, tier_end)


def test_late_claim_lowers_the_log_start_to_the_first_record_of_the_leader() -> None:
    store = MemoryTierStore()
    manifest = leader(store, 1)
    copy_until(store, manifest, 90, epoch=1)
    manifest.raise_start(1, 95)
    manifest.delete_below_start(1)
    lineage = Lineage([(1, 0), (2, 80)], 2, 120)
    manifest.claim(2, lineage)
    assert (manifest.root.log_start_offset, manifest.end_offset) == (80, 80)
    manifest.raise_start(2, 110)
    manifest.claim(2, lineage)
    assert manifest.root.log_start_offset == 110, "it is this leader that has raised it"


def test_claim_of_a_log_that_lacks_records_of_its_own_epoch_lowers_nothing() -> None:
    store = MemoryTierStore()
    manifest = leader(store, 1)
    copy_until(store, manifest, 90, epoch=1)
    manifest.raise_start(1, 40)
    manifest.delete_below_start(1)
    manifest.claim(1, Lineage([(1, 0)], 1, 20))
    assert (manifest.root.log_start_offset, manifest.root.removed_below, manifest.end_offset) == (40, 40, 90)


def test_claim_of_a_log_that_begins_behind_the_tier_cuts_nothing() -> None:
    store = MemoryTierStore()
    copy_until(store, leader(store, 1), 100, epoch=1)
    manifest = Manifest.open(store, ORDERS)
    manifest.claim(2, Lineage([(1, 70)], 2, 100))
    assert len(spans(manifest)) == 10


@for_each("end", [0, 7, 120, 123, 600, 995, 1000, 2000])
def test_end_that_a_claim_would_leave_is_known_before_it(end: int) -> None:
    store = MemoryTierStore()
    copy_until(store, leader(store, 1), 1000, epoch=1)
    manifest, lineage = Manifest.open(store, ORDERS), Lineage([(1, 0)], 2, end)
    agreed = manifest.agreed_end(lineage)
    assert manifest.root == Manifest.open(store, ORDERS).root, "nothing is changed"
    manifest.claim(2, lineage)
    assert agreed == manifest.end_offset == min(end, 1000)


def test_copy_that_would_leave_a_gap_is_refused() -> None:
    store = MemoryTierStore()
    manifest = leader(store, 1)
    copy_until(store, manifest, 100, epoch=1)
    with pytest.raises(TierCorrupt, match="the tier ends at 100, expected the next segment to begin there, found"):
        manifest.begin_copy(1, entry(110, 120))
    assert manifest.root.copying == ()
    manifest.raise_start(1, 110)
    copy(store, manifest, entry(110, 120, leader_epoch=1))
    assert spans(manifest)[-2:] == [(90, 100), (110, 120)], "what is between was deleted before"


def test_claim_of_a_large_tier_by_an_empty_log_takes_few_changes() -> None:
    store = FaultyTierStore(MemoryTierStore())
    copy_until(store, leader(store, 1), 1500, epoch=1)
    store.calls.clear()
    assert spans(leader(store, 2, end=0)) == []
    assert len(store.calls) < 30
    assert [each.key for each in store.list("")] == [ORDERS.manifest_key]


def test_copy_of_offsets_that_the_tier_has_is_refused() -> None:
    store = MemoryTierStore()
    manifest = leader(store)
    copy_until(store, manifest, 20)
    with pytest.raises(ObjectChanged, match="the tier ends at 20, a copy from 10 on is late"):
        manifest.begin_copy(0, entry(10, 30))


def test_copy_whose_answer_was_lost_is_not_made_twice() -> None:
    store = FaultyTierStore(MemoryTierStore())
    manifest = leader(store)
    for number in range(4):
        first = entry(manifest.end_offset, manifest.end_offset + 10)
        manifest.begin_copy(0, first)
        store.put(first.key(ORDERS), [b"x"], 1)
        store.fail(lost_answer("put_if"), times=1)
        with pytest.raises(TierUnavailable):
            manifest.finish_copy(0, first)
        if number % 2:
            manifest.finish_copy(0, first)
        else:
            with pytest.raises(ObjectChanged):
                manifest.begin_copy(0, first._replace(object_id="f" * 32))
    assert spans(manifest) == [(0, 10), (10, 20), (20, 30), (30, 40)]
    assert {each.key for each in store.list("")} == keys_named_by(store, manifest)


def test_announcement_that_took_place_and_is_sent_again_counts_once() -> None:
    store = FaultyTierStore(MemoryTierStore())
    manifest = leader(store)

    def changed(call: TierCall) -> None:
        raise ObjectChanged(f"{call.key}: sent again by retries")

    store.fail(TierFault("put_if", after=changed), times=1)
    manifest.begin_copy(0, entry(0, 10))
    assert Manifest.open(store, ORDERS).root.copying == (entry(0, 10),)


def test_copy_that_was_given_up_meanwhile_is_not_added() -> None:
    store = MemoryTierStore()
    manifest = leader(store, 1)
    segment = entry(0, 10, leader_epoch=1)
    manifest.begin_copy(1, segment)
    manifest.claim(1, None)
    with pytest.raises(LeaderFenced, match="the copy of offset 0 was given up"):
        manifest.finish_copy(1, segment)
    assert spans(manifest) == []


def life_of_a_leader(store: FaultyTierStore, epoch: int) -> Iterator[None]:
    """Claim with a cut, copy, raise the start, delete: all that a leader does, with pages."""
    manifest = Manifest.open(store, ORDERS)
    manifest.claim(epoch, Lineage([(0, 0)], epoch, 75))
    yield
    for start in (75, 80, 90, 100):
        copy(store, manifest, entry(start, (start // 10 + 1) * 10, leader_epoch=epoch, epochs=((epoch, start),)))
        yield
    manifest.raise_start(epoch, 40)
    while manifest.delete_below_start(epoch):
        yield


def calls_of_a_life() -> int:
    store = FaultyTierStore(MemoryTierStore())
    copy_until(store, leader(store), 80)
    store.calls.clear()
    for _ in life_of_a_leader(store, 1):
        pass
    return len(store.calls)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("hook", ["before", "after"])
def test_crash_at_any_call_leaves_a_log_without_gaps_and_nothing_unnamed(hook: str) -> None:
    for number in range(1, calls_of_a_life() + 1):
        store = FaultyTierStore(MemoryTierStore())
        copy_until(store, leader(store), 80)
        setattr(store, hook, crash_at(number))
        with pytest.raises(Crash):
            for _ in life_of_a_leader(store, 1):
                pass
        store.mend()
        manifest = Manifest.open(store, ORDERS)
        end = max(75, manifest.end_offset) if manifest.root.leader_epoch else 75
        manifest.claim(2, Lineage([(0, 0), (1, 75)], 2, end))
        copy_until(store, manifest, 110 if end % 10 == 0 else end + 5, epoch=2, step=10 if end % 10 == 0 else 5)
        found = spans(manifest)
        assert found[0][0] <= manifest.start_offset
        assert all(before[1] == after[0] for before, after in pairwise(found)), number
        keys = {each.key for each in store.list("")}
        assert {segment.key(ORDERS) for segment in manifest.segments()} <= keys
        # A page that was put before the crash may be left, as the segments have changed since.
        assert {key for key in keys - keys_named_by(store, manifest) if "/pages/" not in key} == set(), number
        assert len(keys - keys_named_by(store, manifest)) <= 2


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("hook", ["before", "after"])
def test_leader_that_pauses_at_any_call_changes_nothing_once_it_was_deposed(hook: str) -> None:
    calls = calls_of_a_life()
    for number in range(1, calls + 1):
        inner = MemoryTierStore()
        store = FaultyTierStore(inner)
        copy_until(store, leader(store), 80)
        successors: list[Manifest] = []

        def take_over(operation: str, key: str, seen=count(1)) -> None:  # type: ignore[no-untyped-def]  # noqa: B008
            if next(seen) == number:  # noqa: B023
                manifest = Manifest.open(inner, ORDERS)  # noqa: B023
                lineage = Lineage([(0, 0), (1, 75)], 2, max(manifest.end_offset, 75))
                manifest.claim(2, lineage)
                copy_until(inner, manifest, manifest.end_offset + 30, epoch=2)  # noqa: B023
                successors.append(manifest)  # noqa: B023

        setattr(store, hook, take_over)
        fenced = False
        try:
            for _ in life_of_a_leader(store, 1):
                pass
        except LeaderFenced:
            fenced = True
        [manifest] = successors
        after = Manifest.open(inner, ORDERS)
        assert fenced or number >= calls - 1
        assert after.root == manifest.root
        keys = {each.key for each in inner.list("")}
        assert {segment.key(ORDERS) for segment in after.segments()} <= keys
        assert keys_named_by(inner, after) - set(after.root.deleting) <= keys


@pytest.mark.parametrize("later_first", [True, False])
def test_of_two_leaders_that_race_the_later_one_wins(later_first: bool) -> None:
    store = MemoryTierStore()
    racing = FaultyTierStore(store)
    manifest = Manifest.open(racing, ORDERS)
    other = Manifest.open(store, ORDERS)

    def overtake(operation: str, key: str) -> None:
        if operation == "put_if":
            racing.before = lambda operation, key: None
            other.claim(2 if later_first else 1, None)

    racing.before = overtake
    if later_first:
        with pytest.raises(LeaderFenced):
            manifest.claim(1, None)
    else:
        manifest.claim(2, None)
        with pytest.raises(LeaderFenced):
            other.begin_copy(1, entry(0, 10, leader_epoch=1))
    assert Manifest.open(store, ORDERS).root.leader_epoch == 2


def test_failed_copy_of_a_deposed_leader_is_deleted_but_never_one_that_was_adopted() -> None:
    store = MemoryTierStore()
    old = leader(store, 1)
    adopted, failed = entry(0, 10, leader_epoch=1), entry(10, 20, leader_epoch=1)
    copy(store, old, adopted)
    old.begin_copy(1, failed)
    leader(store, 2)
    store.put(failed.key(ORDERS), [b"late"], 4)
    old.refresh()
    for segment in (adopted, failed):
        old.delete_unless_listed(segment)
    assert {each.key for each in store.list("")} == {ORDERS.manifest_key, adopted.key(ORDERS)}


def test_changes_give_up_when_the_root_changes_all_the_time() -> None:
    store = FaultyTierStore(MemoryTierStore())
    manifest = leader(store)
    other = Manifest.open(store.inner, ORDERS)
    offsets = count(1)

    def change(operation: str, key: str) -> None:
        if operation == "put_if":
            other.raise_start(0, next(offsets))

    store.before = change
    with pytest.raises(ObjectChanged):
        manifest.claim(0, None)
