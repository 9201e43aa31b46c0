"""Batches are whole for whoever reads them, wherever their writer is killed."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.spark.batches import Batches, whole_files
from kqueue.spark.batches.batches import Batch
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.stores import Location, Store, open_store
from kqueue.spark.stores.local import LocalStore
from kqueue.tests.spark.batches.cut_stores import CutStore, Files, Killed, ids_of
from kqueue.tests.spark.stores.s3_server import s3_place, s3_server
from kqueue.tests.thorough import corners, examples

MakeStore = Callable[[], Store]
LAYOUTS = {"archive": (False, False), "table": (True, False), "table that is renamed": (True, True)}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    with s3_server() as settings:
        yield settings


# Both keep the contract of a store: `kqueue/tests/spark/stores`.
@pytest.fixture(params=corners(["folder", "s3"]))
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Return a function that makes an empty store."""
    if request.param == "folder":
        return lambda: LocalStore(tmp_path / f"store-{next(_numbers)}")
    server: dict[str, str] = request.getfixturevalue("server")
    return lambda: open_store(s3_place(server, f"store-{next(_numbers)}"), None)


def frames(number: int) -> Files:
    """Return the files of a batch: two, in different folders."""
    return {f"date=2026-01-0{day}/part-{day}.parquet": [number * 10 + day] for day in (1, 2)}


def ids_up_to(number: int) -> list[int]:
    return sorted(id for batch in range(1, number + 1) for some in frames(batch).values() for id in some)


class Job:
    """Writes batches, one more than there are, in whatever process."""

    def __init__(self, store: Store, *, folder_each: bool, renames: bool = False, log: Any = None) -> None:
        self.store = CutStore(store, renames=renames)
        self.batches = Batches(self.store, "data", "home", folder_each=folder_each, log=log)

    def run(self) -> int:
        """Finish the batch that was decided, or write the next one; return its number."""
        last = self.batches.last()
        number = 1 if last is None else last.number + 1
        if self.batches.recover(number) is None:
            self.batches.commit(self.batches.stage(frames(number), number, ["date"]), {"next": number})
        return number

    def cut(self, left: int) -> None:
        """Be killed in front of a change: that one is the first which is not made."""
        remaining = itertools.count(left, -1)

        def before(change: str) -> None:
            if next(remaining) <= 0:
                raise Killed(change)

        self.store.before = before

    def seen_by_manifest(self) -> tuple[int, list[int]]:
        """Return the number of the last batch and all ids, as readers of manifests find them."""
        reader = Batches(self.store, "data", "home")
        manifests = [reader.read(number) for number in reader.numbers()]
        files = [f"data/{file}" for batch in manifests if batch is not None for file in batch.files]
        return len(manifests), ids_of(self.store, files)

    def seen_by_listing(self) -> list[int]:
        return ids_of(self.store, [f"data/{name}" for name in self.store.names("data")])


def check_seen(job: Job) -> None:
    """Whoever reads now sees whole batches, or no record twice."""
    last, by_manifest = job.seen_by_manifest()
    assert by_manifest == ids_up_to(last)
    by_listing = job.seen_by_listing()
    assert len(set(by_listing)) == len(by_listing)
    assert set(by_manifest) <= set(by_listing) <= set(ids_up_to(last + 1))


@pytest.mark.parametrize("layout", corners(LAYOUTS))
def test_a_kill_at_any_change_loses_nothing_and_shows_nothing_twice(make_store: MakeStore, layout: str) -> None:
    folder_each, renames = LAYOUTS[layout]
    whole = []
    for cut in itertools.count():
        job = Job(make_store(), folder_each=folder_each, renames=renames)
        job.run()
        job.cut(cut)
        try:
            job.run()
        except Killed:
            check_seen(job)
            listed = job.seen_by_listing()
            whole.append(listed in (ids_up_to(1), ids_up_to(2)))
        else:
            break
        job.cut(1000)
        while job.run() < 3:
            check_seen(job)
        assert job.seen_by_manifest() == (3, ids_up_to(3))
        assert job.seen_by_listing() == ids_up_to(3)
        assert job.store.names("home/.staging") == []
    assert len(whole) >= 6
    assert all(whole) or not job.store.renames


@settings(max_examples=examples(60), deadline=None)
@given(cuts=st.lists(st.integers(0, 12), max_size=8), layout=st.sampled_from(sorted(LAYOUTS)))
def test_batches_after_repeated_kills_are_whole_and_unique(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], layout: str
) -> None:
    folder_each, renames = LAYOUTS[layout]
    store = LocalStore(tmp_path_factory.mktemp("store"))
    for cut in cuts:
        job = Job(store, folder_each=folder_each, renames=renames)
        job.cut(cut)
        with contextlib.suppress(Killed):
            job.run()
        check_seen(job)
    job = Job(store, folder_each=folder_each, renames=renames)
    last = job.run()
    assert job.seen_by_manifest() == (last, ids_up_to(last))
    assert job.seen_by_listing() == ids_up_to(last)


def test_of_two_writers_one_makes_the_batch(make_store: MakeStore) -> None:
    """The other one runs as a whole before each change of the first."""
    lost = 0
    for cut in itertools.count():
        store = make_store()
        first, second = (Job(store, folder_each=False) for _ in range(2))
        remaining, interrupted = itertools.count(cut, -1), False

        def before(
            change: str, remaining: Iterator[int] = remaining, second: Job = second
        ) -> None:  # bound in this turn of the loop
            nonlocal interrupted
            if next(remaining) == 0:
                interrupted = True
                second.run()

        first.store.before = before
        try:
            first.run()
        except PipelineFailed as error:
            lost += "another job wrote batch 1 of" in str(error)
        if not interrupted:
            break
        check_seen(first)
        first.store.before = lambda change: None
        last = first.run()
        assert first.seen_by_manifest() == (last, ids_up_to(last))
        assert first.seen_by_listing() == ids_up_to(last)
    assert lost == 3  # before each file, and before the decision


class Log:
    """The log of a table that takes each batch once."""

    def __init__(self, job: Callable[[], CutStore]) -> None:
        self.store = job
        self.batches: dict[int, list[str]] = {}

    def commit(self, batch: int, files: Any) -> None:
        self.store().before("commit")
        self.batches.setdefault(batch, list(files))
        self.store().before("committed")


def test_the_log_has_what_manifests_have(make_store: MakeStore) -> None:
    for cut in itertools.count():
        log = Log(lambda: job.store)  # noqa: B023  the job of this turn
        job = Job(make_store(), folder_each=True, log=log)
        job.cut(cut)
        try:
            job.run()
        except Killed:
            missing = [name for files in log.batches.values() for name in files if not job.store.exists(f"data/{name}")]
            assert missing == []
            assert job.seen_by_manifest()[0] <= len(log.batches)
        else:
            break
        job.cut(1000)
        job.batches.recover_all()
        job.run()
        last = job.seen_by_manifest()[0]
        assert sorted(log.batches) == list(range(1, last + 1))
        for number, files in log.batches.items():
            batch = job.batches.read(number)
            assert batch is not None
            assert list(batch.files) == files


def test_a_batch_that_the_first_release_had_decided_is_finished(make_store: MakeStore) -> None:
    """It staged the files beside the decision, and moved one of them."""
    store = CutStore(make_store())
    staged = store.write({"topic=a/part-1.parquet": [1], "topic=b/part-1.parquet": [2]}, ".staging/00000001", [])
    files = [f"{name.partition('/')[0]}/00000001-1.parquet" for name in staged.names]
    about = {"version": 1, "batch": 1, "archive": "x", "next": {"a": {"0": 1}}, "rows": 2, "rows_total": 2}
    store.put_new(".staging/00000001/batch.json", json.dumps({**about, "files": files}).encode())
    store.move([(".staging/00000001/topic=a/part-1.parquet", "records/topic=a/00000001-1.parquet")])
    batches = Batches(store, "records")
    whole = batches.recover(1)
    assert whole == batches.last()
    assert whole == Batch(1, 2, tuple(files), {"archive": "x", "next": {"a": {"0": 1}}, "rows_total": 2})
    assert store.names("records") == files
    assert store.names(".staging") == []
    assert batches.recover(1) is None
    place = Location(store.url, store.settings)
    assert whole_files(place) == [store.of("records", file) for file in files]


def test_damaged_batches_are_reported(make_store: MakeStore) -> None:
    store = make_store()
    batches = Batches(store, "records")
    assert batches.last() is None
    with pytest.raises(PipelineFailed, match="records has no whole batch"):
        whole_files(Location(store.url, store.settings))
    for text in (b"{", b"[]", b'{"version": 2}', b'{"version": 1, "batch": 1, "rows": 1, "files": 1}'):
        store.delete("batches/00000001.json")
        store.put_new("batches/00000001.json", text)
        with pytest.raises(PipelineFailed, match=r"00000001\.json is no description of a batch: "):
            batches.last()
