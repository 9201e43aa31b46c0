from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType

import pytest

import kqueue
from kqueue.base.config import TopicConfig
from kqueue.base.registry import PluginSource, Registry
from kqueue.log.policies import CommittedOffsets, LogView
from kqueue.storage import MemoryStorage
from kqueue.storage.contract import FolderEntry
from kqueue.tests.tables import for_each
from kqueue.workers.watchdog import Watchdog, blocking_call

PATIENCE_S = 20.0
LIMIT_MS = 1000
"""For how long no loop is blocked but by a test, on a busy machine too."""


class Lines(logging.Handler):
    """The watchdog's log lines; `wait` returns once there are this many."""

    def __init__(self) -> None:
        super().__init__()
        self._came = threading.Condition()
        self.said: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        with self._came:
            self.said.append((record.levelname, record.getMessage()))
            self._came.notify_all()

    def wait(self, count: int) -> list[tuple[str, str]]:
        with self._came:
            assert self._came.wait_for(lambda: len(self.said) >= count, PATIENCE_S), (
                f"expected {count} lines, found {self.said}"
            )
            return list(self.said)


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("kqueue.workers.watchdog")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


class Holding:
    """A policy that blocks the loop until it is released."""

    name = "holding"

    def __init__(self) -> None:
        self.held = threading.Event()
        self.released = threading.Event()

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> None:
        self.held.set()
        assert self.released.wait(PATIENCE_S)


def test_blocking_policy_is_named_once_and_its_end_logged(lines: Lines) -> None:
    policy = Holding()
    with kqueue.Broker(
        cleanup_policies=[policy], kqueue_watchdog_ms=LIMIT_MS, log_retention_check_interval_ms=20
    ) as broker:
        broker.create_topic("t", cleanup_policy="holding")
        broker.topics["t"].produce(b"no policy is asked about a log without records")
        assert policy.held.wait(PATIENCE_S)
        [(level, said)] = lines.wait(1)
        assert level == "WARNING"
        assert re.search(r"has been blocked for \d+\.\d", said)
        assert "cleanup policy 'holding' of Broker(...) (" in said
        assert f"{__name__}.Holding.plan, line " in said
        assert len(lines.said) == 1, "it is said once, however long it takes"
        policy.released.set()
        level, said = lines.wait(2)[1]
        assert level == "INFO"
        assert re.search(r"the event loop runs again after \d+\.\d", said)
        assert "cleanup policy 'holding' of Broker(...)" in said


def test_built_in_function_is_named(lines: Lines) -> None:
    released = threading.Event()
    with kqueue.Broker(kqueue_watchdog_ms=LIMIT_MS) as broker:

        def hold() -> None:
            assert released.wait(PATIENCE_S)

        async def begin() -> None:
            broker._server.broker.scheduler.timers.at(0, hold)

        broker._call(begin)
        [(level, said)] = lines.wait(1)
        released.set()
        lines.wait(2)
    assert level == "WARNING"
    assert f"{__name__}.test_built_in_function_is_named.<locals>.hold, line " in said


def watchdogs() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kqueue-watchdog"]


def turn(broker: kqueue.Broker, seconds: float) -> None:
    broker._call(lambda: asyncio.sleep(seconds))


@for_each("limit_ms, expected", [(0, 0), (20, 1)])
def test_thread_runs_only_if_configured_and_ends_with_the_broker(limit_ms: int, expected: int) -> None:
    before = len(watchdogs())
    with kqueue.Broker(kqueue_watchdog_ms=limit_ms) as broker:
        turn(broker, 0.02)
        assert len(watchdogs()) - before == expected
    assert len(watchdogs()) == before


def test_idle_or_turning_loop_is_not_reported(lines: Lines) -> None:
    with kqueue.Broker(kqueue_watchdog_ms=5_000) as broker:
        turn(broker, 0.05)
    assert lines.said == []


class Loop:
    """A loop in its own thread, with a watchdog that the test controls."""

    def __init__(self, limit_ms: int, sources: Callable[[], list[PluginSource]] = list) -> None:
        self._limit_ms = limit_ms
        self._sources = sources
        self.watchdog: Watchdog
        self.loop: asyncio.AbstractEventLoop

    @contextmanager
    def running(self) -> Iterator[Loop]:
        started, ended = threading.Event(), threading.Event()

        async def live() -> None:
            self.loop = asyncio.get_running_loop()
            self.watchdog = Watchdog(self.loop, self._limit_ms, self._sources)
            self.watchdog.start()
            started.set()
            while not ended.is_set():
                await asyncio.sleep(0.001)
            self.watchdog.stop()
            self.watchdog.stop()

        thread = threading.Thread(target=lambda: asyncio.run(live()))
        thread.start()
        assert started.wait(PATIENCE_S)
        yield self
        ended.set()
        thread.join()


def test_excused_calls_are_not_reported_and_later_ones_are(lines: Lines) -> None:
    looked, released, again = threading.Event(), threading.Event(), threading.Event()
    too_early: list[bool] = []

    def sources() -> list[PluginSource]:
        looked.set()
        return []

    with Loop(LIMIT_MS, sources).running() as running:

        def hold() -> None:
            with running.watchdog.suspended():
                too_early.append(looked.wait(2 * LIMIT_MS / 1000))
            assert released.wait(PATIENCE_S)
            again.set()

        running.loop.call_soon_threadsafe(hold)
        [(level, said)] = lines.wait(1)
        released.set()
        assert again.wait(PATIENCE_S)
        lines.wait(2)
    assert too_early == [False]
    assert level == "WARNING"
    assert "hold" in said


def test_stop_ends_a_watchdog_during_a_report(lines: Lines) -> None:
    stopped = threading.Event()
    with Loop(LIMIT_MS).running() as running:

        def hold() -> None:
            lines.wait(1)
            running.watchdog.stop()
            stopped.set()

        running.loop.call_soon_threadsafe(hold)
        assert stopped.wait(PATIENCE_S)
    assert [level for level, _ in lines.said] == ["WARNING"]


# --- attribution of a call


def frame_in(module: str, code: str, name: str = "f") -> FrameType:
    """Return the innermost frame of a call of `name` in a module of this name."""
    names: dict[str, object] = {"__name__": module, "frame": sys._getframe}
    exec(code, names)
    frame = names[name]()  # type: ignore[operator]
    assert isinstance(frame, FrameType)
    return frame


PLUGIN = PluginSource("codec 'x' of x-codec 1.0", "x_codec.codec", "XCodec")
OTHER = PluginSource("partitioner 'y' of x-codec 1.0", "x_codec.codec", "Y")


@for_each(
    "module, name, expected",
    [
        ("x_codec.codec", "XCodec", "codec 'x' of x-codec 1.0 (x_codec.codec.XCodec, line 1)"),
        ("x_codec.codec", "Y", "partitioner 'y' of x-codec 1.0 (x_codec.codec.Y, line 1)"),
        ("x_codec.codec", "helper", "codec 'x' of x-codec 1.0 (x_codec.codec.helper, line 1)"),
        ("x_codec.inner", "helper", "codec 'x' of x-codec 1.0 (x_codec.inner.helper, line 1)"),
        ("x_codecs", "helper", f"{__name__}.frame_in, line "),
    ],
)
def test_plugin_is_identified_by_function_module_or_package(module: str, name: str, expected: str) -> None:
    frame = frame_in(module, f"def {name}(): return frame()", name)
    assert blocking_call(frame, [PLUGIN, OTHER]).startswith(expected)


def test_plugin_is_identified_in_outer_frames() -> None:
    inner = frame_in("kqueue.inner", "def f(): return frame()")
    assert blocking_call(inner, []).startswith("kqueue.inner.f, line 1")
    here = PluginSource("policy 'p' of p 2", __name__, "frame_in")
    assert blocking_call(inner, [here]).startswith(f"policy 'p' of p 2 ({__name__}.frame_in, line ")


def test_innermost_kqueue_function_is_named_for_foreign_code() -> None:
    inner = frame_in("json.decoder", "def f(): return frame()")
    assert blocking_call(inner, []).startswith(f"{__name__}.frame_in, line ")


def test_registries_list_plugin_sources_without_built_ins() -> None:
    registry: Registry[object] = Registry("kqueue.none", "thing")
    registry.add("ours", Loop)
    registry.add("theirs", Holding, origin="dist 1")
    with registry.added("guest", Holding(), "Broker(...)"):
        pass
    assert registry.sources() == [PluginSource("thing 'guest' of Broker(...)", __name__, "Holding")]
    registry.guarded("found", Lines, "module:Lines")
    assert registry.sources()[1:] == [PluginSource("thing 'found' of module:Lines", __name__, "Lines")]


class Stuck(MemoryStorage):
    """Blocks the loop in one of its calls, until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def list(self, folder: str) -> list[FolderEntry]:
        if folder.startswith("stuck"):  # its log is opened
            assert self.released.wait(PATIENCE_S)
        return super().list(folder)


def test_given_storage_is_named(lines: Lines) -> None:
    storage = Stuck()
    with kqueue.Broker(storage=storage, kqueue_watchdog_ms=LIMIT_MS) as broker, ThreadPoolExecutor(1) as pool:
        broker.create_topic("stuck")
        produced = pool.submit(broker.topics["stuck"].produce, b"which opens the log")
        [(_, said)] = lines.wait(1)
        storage.released.set()
        produced.result(PATIENCE_S)
    assert f"storage 'Stuck' of Broker(storage=...) ({__name__}.Stuck.list, line " in said
