"""Plugins that harm their process: one per contract, valid except for the given failure."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kqueue.base.config import TopicConfig
from kqueue.groups.assignors import AssignorMember, AssignorTopic, AssignorWork
from kqueue.groups.assignors.range import RangeAssignor
from kqueue.log.policies import Cleanup, CommittedOffsets, LogView
from kqueue.metadata import MetadataStore
from kqueue.metadata.sqlite import SqliteStore
from kqueue.records.codecs import CODECS, Buffer
from kqueue.records.partitioners.murmur2 import Murmur2Partitioner
from kqueue.storage import LocalStorage, Storage


def hang() -> None:
    while True:
        pass


def leave() -> None:
    os._exit(3)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash() -> None:
    ctypes.string_at(0)


def say() -> None:
    print("hello")


def complain() -> None:
    print("mind the gap", file=sys.stderr)


def quit_politely() -> None:
    raise SystemExit(5)


class Codec:
    id = 5
    name = "bad"
    levels = None

    def __init__(self, harm: Callable[[], None]) -> None:
        self.harm = harm

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        if len(data) == 1:
            self.harm()
        return CODECS.get("gzip").compress(data)

    def decompress(self, data: Buffer, limit: int) -> bytes:
        return CODECS.get("gzip").decompress(data, limit)


class Factory:
    """A factory of partitioners."""

    name = "bad"

    def __init__(self, harm: Callable[[], None]) -> None:
        self.harm = harm

    def __call__(self, rng: random.Random) -> Partitioner:
        return Partitioner(self.harm, rng)


class Partitioner(Murmur2Partitioner):
    def __init__(self, harm: Callable[[], None], rng: random.Random) -> None:
        super().__init__(rng)
        self.harm = harm

    def partition(self, key: bytes | None, count: int, **more: Any) -> int:
        if key == b"":
            self.harm()
        return super().partition(key, count, **more)


class AssignorFactory:
    name = "bad"

    def __init__(self, harm: Callable[[], None]) -> None:
        self.harm = harm

    def __call__(self) -> BadAssignor:
        return BadAssignor(self.harm)


class BadAssignor(RangeAssignor):
    def __init__(self, harm: Callable[[], None]) -> None:
        self.harm = harm

    def assign(self, members: Sequence[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> AssignorWork:
        if members:
            self.harm()
        return super().assign(members, topics)


class Policy:
    name = "bad"

    def __init__(self, harm: Callable[[], None]) -> None:
        self.harm = harm

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Cleanup | None:
        if len(log.segments) == 2:
            self.harm()
        return None


class StorageOpener:
    name = "bad"

    def __init__(self, harm: Callable[[], None]) -> None:
        self.harm = harm

    def __call__(self, folder: str) -> Storage:
        return HarmfulStorage(folder, self.harm)


class HarmfulStorage(LocalStorage):
    def __init__(self, folder: str, harm: Callable[[], None]) -> None:
        super().__init__(folder)
        self.harm = harm

    def read(self, path: str) -> bytes:
        self.harm()
        return super().read(path)


class StoreOpener:
    name = "bad"

    def __init__(self, harm: Callable[[], None]) -> None:
        self.harm = harm

    def __call__(self, folder: str) -> MetadataStore:
        return HarmfulStore(folder, self.harm)


class HarmfulStore(SqliteStore):
    def __init__(self, folder: str, harm: Callable[[], None]) -> None:
        super().__init__(Path(folder, "kqueue.db"))
        self.harm = harm

    def read(self, prefix: str) -> Any:
        if prefix != "/":
            self.harm()
        return super().read(prefix)


SOUND = Codec(int)
LEAVING = Codec(leave)
