from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from kqueue.base.errors import PluginError
from kqueue.base.registry import RegistryEntry
from kqueue.records.codecs import CODECS
from kqueue.tests.plugged import MARKED, NAMED_GZIP, MarkedCodec
from kqueue.workers.subprocess_runner import SubprocessRunner
from kqueue.workers.worker_plugins import dump_manifest

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Compress:
    """Returns a text compressed by the codec of this id, in a worker process."""

    id: int

    def __call__(self) -> tuple[str, bytes]:
        codec = CODECS.by_id(self.id)
        assert codec is not None
        return codec.name, codec.compress(b"text")


@dataclass(frozen=True)
class LockedCodec(MarkedCodec):
    """A codec that cannot be pickled."""

    lock: object = None


@pytest.fixture
def brokers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def there(brokers: ExitStack, codec: MarkedCodec, path: str | None = None) -> None:
    brokers.enter_context(CODECS.added(codec.name, codec, "Broker(...)", path=path))
    brokers.enter_context(CODECS.preferred(codec.name))


def test_manifest_is_empty_without_plugins() -> None:
    assert dump_manifest() is None


def test_object_is_pickled(brokers: ExitStack) -> None:
    there(brokers, MarkedCodec("other", 6))
    assert SubprocessRunner().run(Compress(6)) == ("other", MARKED.compress(b"text"))


def test_plugin_named_by_path_is_imported_in_the_worker(brokers: ExitStack) -> None:
    locked = LockedCodec("locked", 5, lock=threading.Lock())
    there(brokers, locked, f"{MARKED.__module__}:MARKED")
    assert SubprocessRunner().run(Compress(5)) == ("locked", MARKED.compress(b"text")), (
        "the path is taken before the object"
    )


def test_preferred_codec_is_preferred_in_the_worker(brokers: ExitStack) -> None:
    assert SubprocessRunner().run(Compress(1))[0] == "gzip"
    there(brokers, NAMED_GZIP)  # type: ignore[arg-type]
    name, packed = SubprocessRunner().run(Compress(1))
    assert (name, b"kq\0" in packed) == ("named-gzip", True)


@pytest.mark.parametrize("id", [1, 6])
def test_unpicklable_plugin_fails_the_job_that_needs_it_and_is_named(brokers: ExitStack, id: int) -> None:
    there(brokers, LockedCodec("locked", id, lock=threading.Lock()))
    words = (
        r"codec 'locked' of Broker\(...\) can't be sent .*: TypeError: cannot pickle .*; "
        "make it an object of a class at the top"
    )
    with pytest.raises(PluginError, match=words):
        SubprocessRunner().run(Compress(id))
    assert SubprocessRunner().run(Compress(2))[0] == "snappy", "others need it not"


def test_plugin_missing_in_the_worker_fails_the_job_that_needs_it(
    brokers: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Local(MarkedCodec):
        """Importable in this process only, as a class of the main script is."""

    Local.__qualname__ = "Local"
    monkeypatch.setitem(globals(), "Local", Local)
    there(brokers, Local("local", 6))
    with pytest.raises(
        PluginError,
        match=r"codec 'local' of Broker\(...\) can't be sent .*AttributeError: Can't get attribute 'Local'",
    ):
        SubprocessRunner().run(Compress(6))


def test_installed_plugin_missing_in_the_worker_fails_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = RegistryEntry("gone", NAMED_GZIP, 1, "gone-plugin 1.0")
    monkeypatch.setattr(CODECS, "preferences", lambda: [gone])
    with pytest.raises(PluginError, match="no codec is called 'gone'"):
        SubprocessRunner().run(Compress(1))
    assert SubprocessRunner().run(Compress(2))[0] == "snappy"
