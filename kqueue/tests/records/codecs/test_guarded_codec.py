from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kqueue.base.errors import CorruptBatch, PluginError
from kqueue.base.registry import RegistryEntry
from kqueue.records.codecs import CODECS, Codec, Levels
from kqueue.records.codecs.guarded_codec import GuardedCodec
from kqueue.testing.codec_checks import check_codec
from kqueue.tests.plugged import EXPLODING, MARKED, NAMED_GZIP, MarkedCodec
from kqueue.tests.tables import for_each

ORIGIN = "some-plugin 2.1"


def guarded(codec: Codec) -> GuardedCodec:
    return GuardedCodec(codec, RegistryEntry("mine", codec, codec.id, ORIGIN))


def test_a_good_codec_keeps_the_contract_behind_the_guard() -> None:
    check_codec(guarded(MARKED), isolated=False)
    check_codec(guarded(NAMED_GZIP), isolated=False)


def test_codec_has_its_registered_name() -> None:
    codec = guarded(MARKED)
    assert (codec.name, codec.id, codec.levels) == ("mine", 5, None)


def test_exception_names_the_codec_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    codec = guarded(EXPLODING)
    for _ in range(3):
        with pytest.raises(
            PluginError, match=r"codec 'mine' of some-plugin 2.1 failed in compress: RuntimeError: the secret"
        ) as caught:
            codec.compress(b"x")
        assert caught.value.summary == "codec 'mine' of some-plugin 2.1 failed in compress"
    with pytest.raises(PluginError, match="failed in decompress"):
        codec.decompress(b"x", 10)
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage().partition(" failed in ")[2] for record in told] == [
        "compress: RuntimeError: the secret is 42",
        "decompress: RuntimeError: the secret is 42",
    ]
    assert all(record.exc_info for record in told), "whoever wrote it wants to see where"


def test_corrupt_bytes_are_not_the_codecs_fault() -> None:
    with pytest.raises(CorruptBatch, match="no mark"):
        guarded(MARKED).decompress(b"other", 10)


class Returning(MarkedCodec):
    result: Any = None

    def compress(self, data: object, level: int | None = None) -> bytes:
        output: bytes = self.result
        return output

    def decompress(self, data: object, limit: int) -> bytes:
        output: bytes = self.result
        return output


@pytest.mark.parametrize("result", [None, "text", bytearray(b"x"), memoryview(b"x"), 5])
def test_result_that_is_no_bytes_is_refused(result: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Returning, "result", result)
    codec = guarded(Returning())
    with pytest.raises(PluginError, match=f"broke its contract: compress returned no bytes: .*{type(result).__name__}"):
        codec.compress(b"x")
    with pytest.raises(PluginError, match="broke its contract: decompress returned no bytes"):
        codec.decompress(b"x", 10)


def test_more_than_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Returning, "result", b"12345")
    codec = guarded(Returning())
    assert codec.decompress(b"x", 5) == b"12345"
    with pytest.raises(PluginError, match="decompress returned more than its limit: 5 bytes, where 4 are allowed"):
        codec.decompress(b"x", 4)


class Leveled(MarkedCodec):
    def compress(self, data: object, level: int | None = None) -> bytes:
        return repr(level).encode()


@for_each("asked, given", [(None, None), (0, 0), (3, 3), (-1, None), (9, None), (7, 7)])
def test_a_level_that_it_does_not_have_means_its_default(asked: int | None, given: int | None) -> None:
    assert guarded(Leveled(levels=Levels(0, 3, 7))).compress(b"x", asked) == repr(given).encode()


@for_each(
    "codec, words",
    [
        (object(), "expected an id from 1 to 7, found None"),
        (MarkedCodec(id=0), "expected an id from 1 to 7, found 0"),
        (MarkedCodec(id=8), "expected an id from 1 to 7, found 8"),
        (MarkedCodec, "expected an instance, found the class MarkedCodec"),
        (SimpleNamespace(id=5, compress=len), "expected a method decompress, found none"),
        (MarkedCodec(levels=(1, 2, 3)), r"expected Levels or None as levels, found \(1, 2, 3\)"),  # type: ignore[arg-type]
    ],
)
def test_object_that_is_no_codec_is_refused(codec: Any, words: str) -> None:
    with pytest.raises(PluginError, match=f"codec 'odd' of a test: {words}"), CODECS.added("odd", codec, "a test"):
        pass
    assert "odd" not in CODECS.names()


def test_built_in_codecs_are_not_guarded() -> None:
    assert not any(isinstance(entry.value, GuardedCodec) for entry in CODECS if entry.origin == "kqueue")
    with CODECS.added("mine", MARKED, "a test"):
        assert isinstance(CODECS.get("mine"), GuardedCodec)
