import random

import pytest

from kqueue.tests.simulation.event_queue import EventQueue
from kqueue.tests.simulation.job_threads import JobThread
from kqueue.tests.simulation.simulated_tier import FAST_MS, HANG_MS, SLOW_MS, TierFaults, TierLink, TierObjects
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt, TierError, TierUnavailable


class World:
    """A store, one link to it, and jobs that use it."""

    def __init__(self, seed: int = 0) -> None:
        self.queue = EventQueue()
        self.objects = TierObjects(self.queue)
        self.link = TierLink(self.objects, random.Random(seed), self.queue, lambda *details: None)

    def begin(self, call) -> JobThread:
        job = JobThread(call, lambda thread: self.queue.after(0, thread.step))
        job.step()
        return job

    def run(self, call):
        """Return what a call in a job returns, or raise its error."""
        job = self.begin(call)
        self.queue.run_until(self.queue.now_ms + 10 * HANG_MS)
        assert job.is_over
        if job.error is not None:
            raise job.error
        return job.result


def test_calls_do_what_the_contract_says() -> None:
    world = World()
    link = world.link
    world.run(lambda: link.put("a/b", [b"12", b"345"], 5))
    version = world.run(lambda: link.put_if("a/m", b"x", None))
    with pytest.raises(ObjectChanged):
        world.run(lambda: link.put_if("a/m", b"y", None))
    assert world.run(lambda: link.put_if("a/m", b"y", version)) != version
    assert world.run(lambda: link.get("a/m", max_bytes=1)).body == b"y"
    assert world.run(lambda: link.get_range("a/b", 1, 3)) == b"234"
    assert [entry.key for entry in world.run(lambda: list(link.list("a")))] == ["a/b", "a/m"]
    assert world.run(lambda: link.list_folders("")) == ["a"]
    world.run(lambda: link.delete(["a/b", "a/none"]))
    with pytest.raises(ObjectNotFound):
        world.run(lambda: link.get("a/b", max_bytes=10))
    for call in (lambda: link.get("a/m", max_bytes=0), lambda: link.get_range("a/m", 0, 2)):
        with pytest.raises(TierCorrupt):
            world.run(call)


def test_list_has_several_pages() -> None:
    world = World()
    keys = [f"a/{number:03d}" for number in range(30)]
    for key in keys:
        world.objects.put(key, b"")
    assert [entry.key for entry in world.run(lambda: list(world.link.list("a")))] == keys


def test_request_arrives_though_its_process_has_ended() -> None:
    world = World()
    job = world.begin(lambda: world.link.put("a/b", [b"1"], 1))
    job.kill()
    assert world.objects.by_key == {}
    world.queue.run_until(SLOW_MS)
    assert set(world.objects.by_key) == {"a/b"}


def test_failures_are_before_after_or_long_after_the_call_took_effect() -> None:
    took_effect = []
    for seed in range(40):
        world = World(seed)
        world.link.faults = TierFaults(failures=1.0)
        job = world.begin(lambda world=world: world.link.put("a/b", [b"1"], 1))
        world.queue.run_until(2 * SLOW_MS)
        assert isinstance(job.error, TierUnavailable)
        soon = "a/b" in world.objects.by_key
        world.queue.run_until(10 * HANG_MS)
        took_effect.append((soon, "a/b" in world.objects.by_key))
    assert {(False, False), (True, True), (False, True)} == set(took_effect)


def test_store_that_is_away_changes_nothing() -> None:
    world = World()
    world.link.is_away = True
    with pytest.raises(TierUnavailable):
        world.run(lambda: world.link.put("a/b", [b"1"], 1))
    assert world.objects.by_key == {}


def test_slow_calls_take_long() -> None:
    spans = []
    for is_slow in (False, True):
        world = World()
        world.link.is_slow = is_slow
        world.objects.put("a", b"1")
        job = world.begin(lambda world=world: world.link.get("a", max_bytes=1))
        while not job.is_over:
            world.queue.run_until(world.queue.now_ms + 1)
        spans.append(world.queue.now_ms)
    assert spans[0] < 2 * FAST_MS + 2 < spans[1]


def test_stale_list_is_that_of_an_earlier_time() -> None:
    world = World()
    world.objects.put("a/old", b"1")
    world.queue.run_until(5000)
    world.objects.put("a/new", b"1")
    world.objects.delete(["a/old"])
    assert [entry.key for entry in world.objects.listed("a/")] == ["a/new"]
    assert [entry.key for entry in world.objects.listed("a/", 100.0)] == ["a/old"]
    world.link.faults = TierFaults(stale=1.0)
    assert [entry.key for entry in world.run(lambda: list(world.link.list("a")))] in (["a/old"], ["a/new"])


def test_torn_reads_are_wrong_or_end_early() -> None:
    outcomes = set()
    for seed in range(30):
        world = World(seed)
        world.objects.put("a", b"12")
        world.link.faults = TierFaults(torn=1.0)
        try:
            outcomes.add(world.run(lambda world=world: world.link.get_range("a", 0, 2)))
        except TierCorrupt:
            outcomes.add("early")
    assert outcomes == {b"12", b"16", "early"}


def test_closed_store_ends_all_waits() -> None:
    world = World()
    job = world.begin(lambda: world.link.sleep(10**6))
    world.link.close()
    job.step()
    assert job.is_over
    with pytest.raises(TierError, match="closed"):
        world.run(lambda: world.link.get("a", max_bytes=1))
