"""Recovery beside the clients, one job at a time."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest

from kqueue.base.errors import JobFailed, LogRecovering, ProcessDied, StorageFailed
from kqueue.base.jobs import CpuJob, IoJob
from kqueue.broker.replicas.partition import PartitionState
from kqueue.broker.topics.topics import NewTopic, Topic
from kqueue.broker.upkeep import log_recovery
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.storage import LocalStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.test_broker import kill

SETTINGS = {"offsets.topic.num.partitions": 1, "num.recovery.threads.per.data.dir": 1}


def crashed(topics: dict[str, int], storage: Storage | None = None, *, size: int = 1) -> Simulation:
    """A broker that was killed; its topics hold as many records of `size` bytes."""
    sim = Simulation(SETTINGS, storage=storage)
    for name, count in topics.items():
        partition = sim.topic(name).partition(0)
        for number in range(count):
            append(partition, b"%d" % number * size)
        sim.settle()
        sim.clock.advance(1000)
    kill(sim)
    return sim


def started(sim: Simulation, storage: Storage | None = None) -> Simulation:
    """The next start, with recovery still to come."""
    return Simulation(SETTINGS, storage=storage or sim.storage, store=sim.store, clock=sim.clock, recovers=False)


def one_log_per_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_recovery, "JOB_LOGS_MAX", 1)


def states(sim: Simulation) -> dict[str, PartitionState]:
    return {topic.name: topic.partition(0).state for topic in sim.broker.topics}


def job_names(sim: Simulation) -> list[str]:
    return [job.name for job in sim.jobs.pending]


def ends(sim: Simulation) -> dict[str, int]:
    return {topic.name: topic.partition(0).high_watermark for topic in sim.broker.topics}


def test_each_log_is_served_once_it_is_recovered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one_log_per_job(monkeypatch)
    caplog.set_level(logging.INFO)
    sim = started(crashed({"a": 1, "b": 2}))
    assert not sim.broker.ready.done
    assert set(states(sim).values()) == {PartitionState.RECOVERING}
    with pytest.raises(LogRecovering, match="the log of a-0 is being recovered"):
        sim.broker.topics.partition("a", 0).high_watermark  # noqa: B018
    append(new_topic(sim, "new").partition(0), b"x")  # what is new meanwhile is served
    sim.jobs.run_all()
    assert set(states(sim).values()) == {PartitionState.ONLINE}
    assert sim.broker.ready.done
    sim.settle()
    assert ends(sim) == {"a": 1, "b": 2, "new": 1}
    assert any("recovering 2 logs" in text for text in caplog.messages)
    assert any("recovered 2 logs" in text and "0 failed" in text for text in caplog.messages)


def new_topic(sim: Simulation, name: str) -> Topic:
    """Create a topic while recovery waits."""
    promise = sim.broker.topics.create(NewTopic(name, 1))
    held = [job for job in sim.jobs.pending if "recover" in job.name]
    for job in held:
        sim.jobs.pending.remove(job)
    sim.settle()
    sim.jobs.pending.extendleft(reversed(held))
    return promise.result()


def test_internal_topics_come_first_then_those_written_last(monkeypatch: pytest.MonkeyPatch) -> None:
    one_log_per_job(monkeypatch)
    before = crashed({})
    before = before.restarted()
    committed = before.broker.coordinators.groups.commit("g", -1, "", None, [OffsetToCommit("t", 0, 5, -1, "")])
    before.result(committed)
    for name in ("old", "older", "new"):
        before.clock.advance(1000)
        append(before.topic(name).partition(0), b"x")
        before.settle()
    kill(before)
    sim = started(before)
    order = []
    sim.jobs.step()  # lists the files
    while not sim.broker.upkeep.recovery.is_done:
        order += [name for name in job_names(sim) if name.startswith("recover ")]
        sim.jobs.step()
    assert order == [f"recover {name}-0" for name in ("__consumer_offsets", "new", "older", "old")]


def test_a_log_that_is_asked_for_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    one_log_per_job(monkeypatch)
    sim = started(crashed(dict.fromkeys(("wanted", "b", "c", "d"), 1)))
    sim.jobs.step()
    assert job_names(sim) == ["recover d-0"]
    with pytest.raises(LogRecovering):
        sim.broker.topics.partition("wanted", 0).log  # noqa: B018
    sim.jobs.step()
    assert job_names(sim) == ["recover wanted-0"]
    sim.settle()
    assert ends(sim) == dict.fromkeys(("wanted", "b", "c", "d"), 1)


def test_a_log_that_fails_is_refused_and_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    storage = FaultyStorage()
    before = crashed({"good": 1, "bad": 1}, storage)
    storage.fail("sync", lambda path: path.startswith("bad-0/"))
    sim = started(before)
    sim.settle()
    assert sim.broker.ready.done
    bad = sim.broker.topics.partition("bad", 0)
    for _ in range(2):
        with pytest.raises(StorageFailed, match="bad-0"):
            bad.high_watermark  # noqa: B018
    assert sum("bad-0 can't be recovered" in text for text in caplog.messages) == 1
    assert sim.broker.topics.partition("good", 0).high_watermark == 1
    storage.mend()
    sim.clock.advance(log_recovery.RETRY_MS)
    with pytest.raises(LogRecovering):
        bad.high_watermark  # noqa: B018
    sim.settle()
    assert bad.high_watermark == 1


def test_the_only_log_is_tried_again_though_nothing_was_measured_at_the_start() -> None:
    before = crashed({"bad": 1})
    storage = before.storage
    sim = Simulation(
        SETTINGS,
        storage=storage,
        store=before.store,
        clock=before.clock,
        before_start=lambda broker: storage.rename("bad-0", "elsewhere"),
    )
    with pytest.raises(StorageFailed, match="is gone"):
        sim.broker.topics.partition("bad", 0).log  # noqa: B018
    storage.rename("elsewhere", "bad-0")
    sim.clock.advance(log_recovery.RETRY_MS)
    with pytest.raises(LogRecovering):
        sim.broker.topics.partition("bad", 0).log  # noqa: B018
    sim.settle()
    assert sim.broker.topics.partition("bad", 0).high_watermark == 1


def test_a_stop_during_recovery_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one_log_per_job(monkeypatch)
    sim = started(crashed({"a": 1, "b": 2, "c": 3}))
    sim.jobs.step()
    sim.jobs.step()
    assert sum(state is PartitionState.RECOVERING for state in states(sim).values()) == 2
    sim.stop()
    assert job_names(sim) == []
    assert sim.logs.unrecovered(), "the stop did not wait for recovery"
    again = started(sim)
    assert again.broker.logs.was_unclean
    again.settle()
    assert ends(again) == {"a": 1, "b": 2, "c": 3}
    again.stop()
    assert not started(again).broker.logs.was_unclean


def test_a_power_cut_during_recovery_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one_log_per_job(monkeypatch)
    disk = FaultyStorage()
    before = crashed({"a": 3, "b": 4}, disk)
    whole = disk.after_cut(Remains.KEPT, random.Random(1))
    sim = started(before, whole)
    begun = len(whole.steps)
    sim.settle()
    count = len(whole.steps)
    kill(sim)
    assert count - begun > 10
    for cut_at in range(begun + 1, count + 1):
        storage = disk.after_cut(Remains.KEPT, random.Random(1), cut_at=cut_at)
        with pytest.raises(PowerCut):
            started(before, storage).settle()
        again = started(before, storage.after_cut(Remains.TORN, random.Random(cut_at)))
        again.settle()
        assert ends(again) == {"a": 3, "b": 4}
        again.stop()


@pytest.mark.parametrize("is_under_way", [False, True])
def test_a_topic_deleted_during_recovery_goes_when_no_job_reads_it(
    monkeypatch: pytest.MonkeyPatch, is_under_way: bool
) -> None:
    one_log_per_job(monkeypatch)
    sim = started(crashed({"other": 2, "t": 5} if is_under_way else {"t": 5, "other": 2}))
    sim.jobs.step()
    (recovering,) = sim.jobs.pending
    assert recovering.name == ("recover t-0" if is_under_way else "recover other-0")
    sim.jobs.pending.clear()
    sim.result(sim.broker.topics.delete("t"))
    assert sim.storage.exists("t-0") is is_under_way
    new = sim.topic("t")
    if is_under_way:
        with pytest.raises(LogRecovering):
            append(new.partition(0), b"new")
        assert new.partition(0).state is PartitionState.RECOVERING
    sim.jobs.pending.append(recovering)
    sim.settle()
    append(new.partition(0), b"new")
    sim.settle()
    assert ends(sim) == {"t": 1, "other": 2}
    assert [entry.name for entry in sim.storage.list("") if entry.name.startswith("t-")] == ["t-0"]
    assert sim.broker.ready.done
    sim.stop()
    assert ends(started(sim)) == {"t": 1, "other": 2}


def test_little_is_read_in_a_thread_and_more_in_a_process(tmp_path: Path) -> None:
    before = crashed({"small": 1}, LocalStorage(tmp_path / "a"))
    sim = started(before)
    sim.jobs.step()
    assert [type(job) for job in sim.jobs.pending] == [IoJob]
    before = crashed({"large": log_recovery.THREAD_BYTES_MAX // 4000 + 1}, LocalStorage(tmp_path / "b"), size=2000)
    sim = started(before)
    sim.jobs.step()
    (job,) = sim.jobs.pending
    assert isinstance(job, CpuJob)
    assert job.shared
    sim.settle()
    assert sim.broker.topics.partition("large", 0).high_watermark > 100


def test_jobs_are_bounded_by_bytes_and_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_recovery, "JOB_BYTES_MAX", 1000)
    monkeypatch.setattr(log_recovery, "JOB_LOGS_MAX", 3)
    monkeypatch.setattr(log_recovery, "THREAD_BYTES_MAX", 0)
    sim = started(crashed({"large": 14, **{f"t{number}": 1 for number in range(5)}}))
    sim.jobs.step()
    sizes = []
    while sim.jobs.pending:
        assert len(sim.jobs.pending) == 1
        (job,) = sim.jobs.pending
        sizes.append(job.name)
        sim.jobs.step()
    assert sizes == ["recover t4-0 and 2 more", "recover t1-0 and 1 more", "recover large-0"]


def test_a_small_log_does_not_share_the_job_of_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_recovery, "THREAD_BYTES_MAX", 500)
    sim = started(crashed({"large": 30, "small": 1, "smaller": 1}))
    sim.jobs.step()
    names = []
    while sim.jobs.pending:
        names += [(type(job), job.name) for job in sim.jobs.pending]
        sim.jobs.step()
    assert names == [(IoJob, "recover smaller-0 and 1 more"), (CpuJob, "recover large-0")]


def test_a_process_that_dies_costs_its_log_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_recovery, "THREAD_BYTES_MAX", 0)
    sim = started(crashed({"a": 1, "deadly": 1, "c": 1}, LocalStorage(tmp_path)))
    sim.jobs.step()
    while sim.jobs.pending:
        (job,) = sim.jobs.pending
        if isinstance(job, CpuJob) and any(log.folder == "deadly-0" for log in job.task.logs):  # type: ignore[attr-defined]
            sim.jobs.pending.clear()
            job.finish(None, ProcessDied("the process of a job was killed by SIGKILL"))
        else:
            sim.jobs.step()
    sim.settle()
    assert sim.broker.topics.partition("a", 0).high_watermark == 1
    assert sim.broker.topics.partition("c", 0).high_watermark == 1
    with pytest.raises(StorageFailed, match="was killed by SIGKILL"):
        sim.broker.topics.partition("deadly", 0).high_watermark  # noqa: B018


def test_recovery_falls_back_to_a_thread_without_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_recovery, "THREAD_BYTES_MAX", 0)
    sim = started(crashed({"a": 1}, LocalStorage(tmp_path)))
    sim.jobs.step()
    (job,) = sim.jobs.pending
    sim.jobs.pending.clear()
    job.finish(None, JobFailed("can't start a Python interpreter"))
    (job,) = sim.jobs.pending
    assert isinstance(job, CpuJob)
    assert not job.shared
    sim.settle()
    assert ends(sim) == {"a": 1}


def test_a_clean_start_recovers_nothing() -> None:
    sim = crashed({"a": 1}).restarted()
    sim.stop()
    again = started(sim)
    assert again.broker.ready.done
    assert job_names(again) == []


def test_retention_leaves_a_log_that_is_being_recovered_to_a_later_round(caplog: pytest.LogCaptureFixture) -> None:
    sim = started(crashed({"a": 3}))
    for _ in range(2):
        sim.broker.upkeep.cleanup.retain(sim.broker.topics.partition("a", 0))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    sim.settle()
    sim.broker.upkeep.cleanup.retain(sim.broker.topics.partition("a", 0))
    assert ends(sim) == {"a": 3}
