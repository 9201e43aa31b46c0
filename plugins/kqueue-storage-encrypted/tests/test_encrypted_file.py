"""One file, against plain bytes: appends, cuts, reads, damage."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kqueue_storage_encrypted import EncryptedStorage, KeySource
from kqueue_storage_encrypted.format import BLOCK_BYTES, CHUNK_BYTES, HEADER, OVERHEAD

from kqueue.base.errors import StorageFailed
from kqueue.storage import MemoryStorage, Region
from kqueue.testing.faulty_storage import FaultyStorage

os.environ["KEY_OF_TESTS"] = "07" * 32
SOURCE = KeySource(variable="KEY_OF_TESTS")
FIRST_BLOCK_HOLDS = BLOCK_BYTES - HEADER.size - (BLOCK_BYTES // (CHUNK_BYTES + OVERHEAD) + 1) * OVERHEAD
SIZES = st.one_of(
    st.integers(0, 200),
    st.sampled_from([CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, BLOCK_BYTES]),
    st.integers(FIRST_BLOCK_HOLDS - 60, FIRST_BLOCK_HOLDS + 60),
    st.integers(0, 600_000),
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL, "kqueue.storage.encrypted"):
        yield


def new_storage() -> tuple[EncryptedStorage, MemoryStorage]:
    inner = MemoryStorage()
    return EncryptedStorage(inner, SOURCE), inner


class FileMachine(RuleBasedStateMachine):
    """The encrypted file beside the bytes that it should have."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.storage, self.inner = new_storage()
        self.file = self.storage.open("a", create=True)
        self.plain = b""
        self.regions: list[tuple[Region, bytes]] = []

    @rule(size=SIZES)
    def append(self, size: int) -> None:
        data = self.rng.randbytes(size)
        assert self.file.append(data) == len(self.plain)
        self.plain += data

    @rule(sizes=st.lists(st.integers(1, 90), max_size=60))
    def append_several(self, sizes: list[int]) -> None:
        for size in sizes:
            self.append(size)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        size = round(len(self.plain) * share)
        self.file.truncate(size)
        self.plain = self.plain[:size]
        self.regions.clear()

    @rule(data=st.data(), size=st.integers(0, 300_000))
    def read(self, data: st.DataObject, size: int) -> None:
        position = data.draw(st.integers(0, len(self.plain) + 10))
        assert self.file.read_at(position, size) == self.plain[position : position + size]

    @rule(data=st.data())
    def take_region(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(0, len(self.plain)))
        size = data.draw(st.integers(0, len(self.plain) - start))
        self.regions.append((self.file.region(start, size), self.plain[start : start + size]))

    @rule()
    def read_regions(self) -> None:
        for region, expected in self.regions:
            assert region.read() == expected
            assert region.is_cached()

    @rule(listed=st.booleans())
    def reopen(self, listed: bool) -> None:
        self.file.close()
        size = self.storage.list("")[0].size
        assert size == len(self.plain)
        self.file = self.storage.open("a", size=size if listed else None)

    @rule()
    def close(self) -> None:
        self.file.close()

    @invariant()
    def has_its_size(self) -> None:
        assert self.file.size == len(self.plain)

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            assert self.storage.read("a") == self.plain


FileMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestFile = FileMachine.TestCase


def small_file(seed: int = 1, *, cuts: bool = False) -> tuple[EncryptedStorage, MemoryStorage, bytes]:
    """Some frames of a few bytes; `cuts`: with two cuts in the middle of frames."""
    storage, inner = new_storage()
    rng = random.Random(seed)
    file = storage.open("a", create=True)
    plain = b""
    for turn in range(6):
        data = rng.randbytes(rng.randint(1, 40))
        file.append(data)
        plain += data
        if cuts and turn in (2, 4):
            plain = plain[:-1]
            file.truncate(len(plain))
    return storage, inner, plain


def set_bytes(inner: MemoryStorage, data: bytes) -> None:
    file = inner.open("a")
    file.truncate(0)
    file.append(data)


@pytest.mark.parametrize("cuts", [False, True])
def test_any_flipped_bit_is_found_and_the_rest_stays(cuts: bool) -> None:
    storage, inner, plain = small_file(cuts=cuts)
    sealed = inner.read("a")
    for bit in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        set_bytes(inner, bytes(changed))
        content = storage.open("a").read_at(0, 10_000)
        if cuts and content == plain:
            continue  # a CUT frame: its neighbours tell what it said
        with pytest.raises(StorageFailed, match=r"memory/a: damaged at position \d+"):
            storage.read("a")
        if bit // 8 < HEADER.size:
            assert set(content) == {0xFF}
            continue
        assert len(content) == len(plain), f"bit {bit}"
        wrong = [place for place, (left, right) in enumerate(zip(content, plain, strict=True)) if left != right]
        assert {content[place] for place in wrong} <= {0xFF}, "what is damaged reads as nothing that could be believed"
        assert len(wrong) <= 40, "one frame at most"


def test_a_frame_that_claims_those_behind_it_costs_itself_alone() -> None:
    storage, inner, plain = small_file()
    sealed = inner.read("a")
    place, position = HEADER.size, 0
    while place < len(sealed):
        size = int.from_bytes(sealed[place + 1 : place + 4], "big")
        claimed = len(sealed) - place - OVERHEAD
        set_bytes(inner, sealed[: place + 1] + claimed.to_bytes(3, "big") + sealed[place + 4 :])
        expected = plain if claimed == size else plain[:position] + b"\xff" * size + plain[position + size :]
        assert storage.open("a").read_at(0, 10_000) == expected
        place += OVERHEAD + size
        position += size
    assert position == len(plain)


def test_appends_behind_damage_are_found_again() -> None:
    _, inner, plain = small_file()
    sealed = inner.read("a")
    for place in range(HEADER.size, len(sealed), 7):
        storage, inner = new_storage()
        storage, inner, plain = small_file()
        changed = bytearray(inner.read("a"))
        changed[place] ^= 0x40
        set_bytes(inner, bytes(changed))
        file = storage.open("a")
        before = file.read_at(0, 10_000)
        assert file.append(b"more") == len(plain)
        again = storage.open("a")
        assert again.size == len(plain) + 4
        assert again.read_at(0, 10_000) == before + b"more"


def test_a_tail_that_was_cut_at_any_byte_costs_its_frame_alone() -> None:
    """As a power cut leaves it: shorter, or zeros in the place of what was not written."""
    storage, inner, plain = small_file()
    sealed = inner.read("a")
    file = storage.open("a", create=True)
    last = file.append(b"the last")
    whole = inner.read("a")
    for end in range(len(sealed), len(whole)):
        for torn in (whole[:end], whole[:end] + bytes(len(whole) - end)):
            if torn == whole:
                continue  # the tag ends with zeros, by chance: nothing is torn
            set_bytes(inner, torn)
            file = storage.open("a")
            assert last <= file.size <= last + len(b"the last")
            assert file.read_at(0, last) == plain
            assert set(file.read_at(last, 100)) <= {0xFF}
            file.truncate(last)
            assert file.append(b"anew") == last
            assert storage.read("a") == plain + b"anew"


def test_a_cut_that_was_torn_did_not_happen() -> None:
    storage, inner, plain = small_file()
    before = inner.read("a")
    storage.open("a").truncate(len(plain) - 1)
    after = inner.read("a")
    assert len(after) == len(before) + OVERHEAD
    for end in range(len(before), len(after)):
        for torn in (after[:end], after[:end] + bytes(len(after) - end)):
            if torn != after:
                set_bytes(inner, torn)
                assert storage.read("a") == plain
    set_bytes(inner, after)
    assert storage.read("a") == plain[:-1]


@given(seed=st.integers(0, 2**32), data=st.data())
@settings(deadline=None)
def test_frames_that_are_moved_swapped_repeated_or_left_out_are_damage(seed: int, data: st.DataObject) -> None:
    storage, inner = new_storage()
    rng = random.Random(seed)
    file = storage.open("a", create=True)
    bounds = [HEADER.size]
    plain = rng.randbytes(160)
    for start in range(0, 160, 20):
        file.append(plain[start : start + 20])
        bounds.append(inner.open("a").size)
    sealed = inner.read("a")
    frames = [sealed[start:end] for start, end in pairwise(bounds)]
    order = data.draw(
        st.lists(st.integers(0, len(frames) - 1), max_size=12).filter(lambda order: order != list(range(len(order))))
    )
    set_bytes(inner, sealed[: HEADER.size] + b"".join(frames[number] for number in order))
    with pytest.raises(StorageFailed, match="damaged"):
        storage.read("a")
    content = storage.open("a").read_at(0, 1000)
    in_place = {place for place, number in enumerate(order) if place == number}
    for place, byte in enumerate(content):
        expected = plain[place] if place // 20 in in_place else 0xFF
        assert byte == expected, "a frame counts where it was written, and nowhere else"


def test_frames_of_another_file_are_damage() -> None:
    storage, inner = new_storage()
    for name in "ab":
        storage.write_atomic(name, b"the same bytes")
    ours, theirs = inner.read("a"), inner.read("b")
    assert ours[HEADER.size :] != theirs[HEADER.size :]
    set_bytes(inner, ours[: HEADER.size] + theirs[HEADER.size :])
    with pytest.raises(StorageFailed, match="damaged"):
        storage.read("a")


def test_no_nonce_comes_twice_even_where_a_crash_takes_frames_back() -> None:
    """The same key, the same place, other bytes: what a power cut and a restart lead to."""
    storage, inner, _ = small_file()
    before = inner.read("a")
    nonces = set()
    for turn in range(200):
        set_bytes(inner, before)
        storage.open("a").append(b"%3d" % turn)
        nonces.add(inner.read("a")[len(before) + 20 : len(before) + 32])
    assert len(nonces) == 200


def test_a_file_that_is_begun_anew_has_another_key() -> None:
    storage, inner, _ = small_file()
    salt = inner.read("a")[: HEADER.size]
    file = storage.open("a")
    file.truncate(0)
    assert inner.read("a") == b""
    file.append(b"anew")
    assert inner.read("a")[: HEADER.size] != salt
    assert storage.read("a") == b"anew"


def test_a_header_that_is_torn_or_lost_makes_no_file() -> None:
    storage, inner, _ = small_file()
    sealed = inner.read("a")
    for end in range(1, HEADER.size + 1):
        set_bytes(inner, sealed[:end])
        file = storage.open("a")
        assert file.size == 0
        file.append(b"anew")
        assert storage.read("a") == b"anew"
    set_bytes(inner, bytes(HEADER.size) + sealed[HEADER.size :])
    file = storage.open("a")
    assert file.read_at(0, 5) == b"\xff" * 5
    assert file.region(0, 3).read() == b"\xff" * 3
    with pytest.raises(StorageFailed, match="damaged at position 0"):
        file.append(b"x")
    with pytest.raises(StorageFailed, match="damaged at position 0"):
        file.truncate(1)
    file.truncate(0)
    file.append(b"anew")
    assert storage.read("a") == b"anew"


def test_damage_in_a_large_file_costs_what_it_hit() -> None:
    storage, inner = new_storage()
    rng = random.Random(5)
    plain = rng.randbytes(3 * BLOCK_BYTES)
    file = storage.open("a", create=True)
    for start in range(0, len(plain), 5000):
        file.append(plain[start : start + 5000])
    sealed = inner.read("a")
    for place in (BLOCK_BYTES + 3, BLOCK_BYTES - 100, 2 * BLOCK_BYTES + 40, BLOCK_BYTES + 50_000, len(sealed) - 3):
        changed = bytearray(sealed)
        changed[place] ^= 1
        set_bytes(inner, bytes(changed))
        content = storage.open("a").read_at(0, len(plain))
        assert len(content) == len(plain)
        wrong = [at for at in range(len(plain)) if content[at] != plain[at]]
        assert wrong
        assert wrong[-1] - wrong[0] < 10_000
        at_once = storage.open("a")
        assert all(at_once.read_at(at, 1) == content[at : at + 1] for at in rng.sample(range(len(plain)), 30))
    changed = bytearray(sealed)
    changed[BLOCK_BYTES : 2 * BLOCK_BYTES] = bytes(BLOCK_BYTES)
    set_bytes(inner, bytes(changed))
    content = storage.open("a").read_at(0, len(plain))
    assert content[: BLOCK_BYTES - 20_000] == plain[: BLOCK_BYTES - 20_000]
    assert content[-BLOCK_BYTES + 20_000 :] == plain[-BLOCK_BYTES + 20_000 :]


def test_a_large_append_that_was_torn_is_as_long_as_it_was() -> None:
    storage, inner = new_storage()
    file = storage.open("a", create=True)
    file.append(b"first")
    before = inner.read("a")
    file.append(bytes(3 * BLOCK_BYTES))
    after = inner.read("a")
    set_bytes(inner, before + bytes(len(after) - len(before)))
    torn = storage.open("a")
    assert torn.size == 5 + 3 * BLOCK_BYTES
    assert torn.read_at(0, 7) == b"first\xff\xff"
    assert torn.read_at(torn.size - 3, 10) == b"\xff" * 3
    torn.truncate(5)
    assert inner.read("a") == before


def test_regions_are_read_in_other_threads_beside_the_writer() -> None:
    storage, _ = new_storage()
    file = storage.open("a", create=True)
    rng = random.Random(2)
    plain = bytearray()
    with ThreadPoolExecutor(4) as pool:
        waiting = []
        for _ in range(1500):
            data = rng.randbytes(rng.randint(1, 900))
            file.append(data)
            plain += data
            start = rng.randrange(len(plain))
            region = file.region(start, min(rng.randint(1, 5000), len(plain) - start))
            waiting.append((pool.submit(region.read), start, len(region)))
        for read, start, size in waiting:
            assert read.result() == plain[start : start + size]


def test_a_region_of_a_file_that_is_cut_meanwhile_is_short_or_right() -> None:
    storage, _, plain = small_file()
    file = storage.open("a")
    region = file.region(0, len(plain))
    file.truncate(0)
    file.append(b"other bytes, in the same place as the ones before" * 9)
    assert plain.startswith(region.read())


def test_an_append_that_fails_leaves_what_was_there() -> None:
    inner = FaultyStorage()
    storage = EncryptedStorage(inner, SOURCE)
    file = storage.open("a", create=True)
    file.append(b"first")
    inner.capacity_bytes = sum(entry.size for entry in inner.list("")) + 60
    with pytest.raises(StorageFailed, match="ENOSPC"):
        file.append(b"x" * 1000)
    inner.capacity_bytes = None
    assert file.read_at(0, 5) == b"first"
    file.truncate(5)
    assert file.append(b"second") == 5
    assert storage.read("a") == b"firstsecond"
