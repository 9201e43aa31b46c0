"""The checker has to find what is wrong with a codec."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs.contract import Buffer, Levels
from kqueue.testing import check_codec


class Good:
    """zlib's own format, as a plugin might bring it."""

    id = 5
    name = "zlib"
    levels: Levels | None = Levels(1, 9, 6)

    def compress(self, data: Buffer, level: int | None = None) -> Any:
        return zlib.compress(data, 6 if level is None else level)

    def decompress(self, data: Buffer, limit: int) -> Any:
        stream = zlib.decompressobj()
        try:
            found = stream.decompress(data, limit + 1)
        except zlib.error as error:
            raise CorruptBatch(str(error)) from None
        if len(found) > limit or not stream.eof or stream.unused_data:
            raise CorruptBatch("above the limit, cut off, or more after it")
        return found


class Nameless:
    """No codec at all."""


def test_a_good_codec_passes() -> None:
    check_codec(Good())


def broken(**members: Any) -> Good:
    return type("Broken", (Good,), members)()


def no_limit(self: Good, data: Buffer, limit: int) -> bytes:
    try:
        found = zlib.decompress(data)
    except zlib.error as error:
        raise CorruptBatch(str(error)) from None
    return found


def limit_afterwards(self: Good, data: Buffer, limit: int) -> bytes:
    found = no_limit(self, data, limit)
    if len(found) > limit:
        raise CorruptBatch("above the limit")
    return found


def other_errors(self: Good, data: Buffer, limit: int) -> bytes:
    if limit < 1 << 20:
        return Good.decompress(self, data, limit)
    found = zlib.decompress(data)
    if len(found) > limit:
        raise CorruptBatch("above the limit")
    return found


def one_byte_short(self: Good, data: Buffer, limit: int) -> bytes:
    if limit == 0:
        return Good.decompress(self, data, limit)
    return Good.decompress(self, data, limit - 1)


def shared_state() -> Callable[..., Any]:
    last = bytearray()

    def compress(self: Good, data: Buffer, level: int | None = None) -> bytes:
        last[:] = data
        if len(data) == 50_000:
            while last[:] == data and last[0] < 7:  # until another thread comes in between
                pass
        return zlib.compress(bytes(last), 6 if level is None else level)

    return compress


def loses_big_ones(self: Good, data: Buffer, limit: int) -> bytes:
    found = Good.decompress(self, data, limit)
    return bytes(found) if len(found) != 70_000 else found[:60_000] + bytes(1) + found[60_001:]


def never_the_same(self: Good, data: Buffer, level: int | None = None) -> bytes:
    return zlib.compress(data, random.SystemRandom().choice((1, 6, 9)))


def minds_the_kind(self: Good, data: Buffer, level: int | None = None) -> bytes:
    return zlib.compress(data, 6 if type(data) is bytes else 1)


def raises_on_long(self: Good, data: Buffer, level: int | None = None) -> bytes:
    if len(data) == 200_000 and level == 9:
        raise MemoryError("too much")
    return Good.compress(self, data, level)


def one_too_many(self: Good, data: Buffer, limit: int) -> bytes:
    return Good.decompress(self, data, limit + 1)


def raw_errors(self: Good, data: Buffer, limit: int) -> bytes:
    found = Good.decompress(self, data, limit) if zlib_says(data) == "" else zlib.decompress(data)
    return bytes(found)


def zlib_says(data: Buffer) -> str:
    """What is wrong in the middle of the data; "" where it is long, cut off alone, or no zlib data
    at all.
    """
    if len(data) > 500:
        return ""
    try:
        zlib.decompressobj().decompress(data)
    except zlib.error as error:
        return "" if "header" in str(error) else str(error)
    return ""


def index_error_on_strangers(self: Good, data: Buffer, limit: int) -> bytes:
    if len(data) > 1 and data[0] != 0x78 and data[1] != 0x9C:
        raise IndexError("no such method")
    return bytes(Good.decompress(self, data, limit))


BROKEN = {
    'to the byte": .* bytes came out under a limit of': broken(decompress=one_too_many),
    "damaged data comes out or is refused.*data with bit .* turned raised error": broken(decompress=raw_errors),
    "noise comes out or is refused.*: noise .* raised IndexError": broken(decompress=index_error_on_strangers),
    'it has a name, a number and perhaps levels": .*raised AttributeError': Nameless(),
    "levels are None or of kqueue's Levels": broken(levels=(1, 9, 6)),
    "a name is text": broken(name=5),
    r"70000 bytes at level None: a round trip changed the data \(given as bytes\): byte 60000 is 0, was": broken(
        decompress=loses_big_ones
    ),
    "the same data was compressed to something else the second time|a memoryview compresses to something": broken(
        compress=never_the_same
    ),
    r"compress\(200000 bytes, level=9\) raised MemoryError: too much": broken(compress=raises_on_long),
    "a memoryview compresses to something else": broken(compress=minds_the_kind),
    "id must be": broken(id=8),
    "a number": broken(id="5"),
    "must not be empty": broken(name=""),
    "small letters": broken(name="ZLib"),
    "have no order": broken(levels=Levels(9, 1, 6)),
    "compress must return bytes": broken(compress=lambda self, data, level=None: bytearray(zlib.compress(data))),
    "decompress must return bytes": broken(
        decompress=lambda self, data, limit: bytearray(Good.decompress(self, data, limit))
    ),
    "changed the data": broken(compress=lambda self, data, level=None: zlib.compress(bytes(data)[::-1])),
    "came out under a limit": broken(decompress=no_limit),
    "a bomb under a limit": broken(decompress=limit_afterwards),
    "expected CorruptBatch or nothing": broken(decompress=other_errors),
    "refused under a limit": broken(decompress=one_byte_short),
}


@pytest.mark.parametrize(("words", "codec"), BROKEN.items(), ids=BROKEN.keys())
def test_what_is_broken_is_named(words: str, codec: Good) -> None:
    with pytest.raises(AssertionError, match=f'^codec .* does not keep its promise ".*{words}'):
        check_codec(codec, isolated=False)


def test_levels_that_are_ignored_are_fine() -> None:
    check_codec(broken(levels=None, compress=lambda self, data, level=None: zlib.compress(data)), isolated=False)


def test_a_cut_that_comes_out_whole_is_found() -> None:
    def lenient(self: Good, data: Buffer, limit: int) -> bytes:
        """Does not look for the checksum at the end."""
        stream = zlib.decompressobj()
        try:
            found = stream.decompress(data, limit + 1)
        except zlib.error as error:
            raise CorruptBatch(str(error)) from None
        if len(found) > limit:
            raise CorruptBatch("above the limit")
        return found

    with pytest.raises(AssertionError, match="came out whole"):
        check_codec(broken(decompress=lenient), isolated=False)


def test_mixed_up_threads_are_found() -> None:
    with pytest.raises(AssertionError, match="threads"):
        check_codec(broken(compress=shared_state()), isolated=False)
