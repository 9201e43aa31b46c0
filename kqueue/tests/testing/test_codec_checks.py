"""`check_codec` reports each violation of the codec contract."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs.contract import Buffer, Levels
from kqueue.testing import check_codec
from kqueue.tests.tables import for_each


class Good:
    """A valid codec plugin in zlib's own format."""

    id = 5
    name = "zlib"
    levels: Levels | None = Levels(1, 9, 6)

    def compress(self, data: Buffer, level: int | None = None) -> Any:
        return zlib.compress(data, 6 if level is None else level)

    def decompress(self, data: Buffer, limit: int) -> Any:
        stream = zlib.decompressobj()
        try:
            output = stream.decompress(data, limit + 1)
        except zlib.error as error:
            raise CorruptBatch(str(error)) from None
        if len(output) > limit or not stream.eof or stream.unused_data:
            raise CorruptBatch("above the limit, cut off, or more after it")
        return output


class Nameless:
    """An object without any attribute of a codec."""


def test_a_good_codec_passes() -> None:
    check_codec(Good())


def broken(**members: Any) -> Good:
    return type("Broken", (Good,), members)()


def no_limit(self: Good, data: Buffer, limit: int) -> bytes:
    try:
        output = zlib.decompress(data)
    except zlib.error as error:
        raise CorruptBatch(str(error)) from None
    return output


def limit_afterwards(self: Good, data: Buffer, limit: int) -> bytes:
    output = no_limit(self, data, limit)
    if len(output) > limit:
        raise CorruptBatch("above the limit")
    return output


def other_errors(self: Good, data: Buffer, limit: int) -> bytes:
    if limit < 1 << 20:
        return Good.decompress(self, data, limit)
    output = zlib.decompress(data)
    if len(output) > limit:
        raise CorruptBatch("above the limit")
    return output


def one_byte_short(self: Good, data: Buffer, limit: int) -> bytes:
    if limit == 0:
        return Good.decompress(self, data, limit)
    return Good.decompress(self, data, limit - 1)


def shared_state() -> Callable[..., Any]:
    last = bytearray()
    begun: set[int] = set()

    def compress(self: Good, data: Buffer, level: int | None = None) -> bytes:
        last[:] = data
        if len(data) == 50_000:
            begun.add(data[0])
            while last[:] == data and 7 not in begun:  # until another thread overwrites it, or none is to come
                pass
        return zlib.compress(bytes(last), 6 if level is None else level)

    return compress


def loses_big_ones(self: Good, data: Buffer, limit: int) -> bytes:
    output = Good.decompress(self, data, limit)
    return bytes(output) if len(output) != 70_000 else output[:60_000] + bytes(1) + output[60_001:]


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
    output = Good.decompress(self, data, limit) if zlib_says(data) == "" else zlib.decompress(data)
    return bytes(output)


def zlib_says(data: Buffer) -> str:
    """Return zlib's error for damaged data; "" if it is long, only truncated, or not zlib's."""
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
    "damaged data is decompressed or raises.*data with bit .* flipped raised error": broken(decompress=raw_errors),
    "random data is decompressed or raises.*: noise .* raised IndexError": broken(decompress=index_error_on_strangers),
    'its name, id and levels are valid": .*raised AttributeError': Nameless(),
    "levels must be None or a kqueue Levels": broken(levels=(1, 9, 6)),
    "name must be a str": broken(name=5),
    r"70000 bytes at level None: a round trip changed the data \(given as bytes\): byte 60000 is 0, was": broken(
        decompress=loses_big_ones
    ),
    "compressing the same data twice gave|compressing a memoryview gave": broken(compress=never_the_same),
    r"compress\(200000 bytes, level=9\) raised MemoryError: too much": broken(compress=raises_on_long),
    "compressing a memoryview gave different bytes": broken(compress=minds_the_kind),
    "id must be": broken(id=8),
    "a number": broken(id="5"),
    "must not be empty": broken(name=""),
    "name must be lower case": broken(name="ZLib"),
    "must not exceed levels.highest": broken(levels=Levels(9, 1, 6)),
    "compress must return bytes": broken(compress=lambda self, data, level=None: bytearray(zlib.compress(data))),
    "decompress must return bytes": broken(
        decompress=lambda self, data, limit: bytearray(Good.decompress(self, data, limit))
    ),
    "changed the data": broken(compress=lambda self, data, level=None: zlib.compress(bytes(data)[::-1])),
    "came out under a limit": broken(decompress=no_limit),
    "a bomb under a limit": broken(decompress=limit_afterwards),
    "expected CorruptBatch or no error": broken(decompress=other_errors),
    "rejected the output of compress under a limit": broken(decompress=one_byte_short),
}


@for_each("words, codec", BROKEN.items())
def test_violations_are_reported(words: str, codec: Good) -> None:
    with pytest.raises(AssertionError, match=f'^codec .* fails the check ".*{words}'):
        check_codec(codec, isolated=False)


def test_a_codec_without_levels_ignores_the_level() -> None:
    check_codec(broken(levels=None, compress=lambda self, data, level=None: zlib.compress(data)), isolated=False)


def test_complete_output_from_truncated_data_is_reported() -> None:
    def lenient(self: Good, data: Buffer, limit: int) -> bytes:
        """Ignore the checksum at the end."""
        stream = zlib.decompressobj()
        try:
            output = stream.decompress(data, limit + 1)
        except zlib.error as error:
            raise CorruptBatch(str(error)) from None
        if len(output) > limit:
            raise CorruptBatch("above the limit")
        return output

    with pytest.raises(AssertionError, match="was decompressed completely"):
        check_codec(broken(decompress=lenient), isolated=False)


def test_data_mixed_up_between_threads_is_reported() -> None:
    with pytest.raises(AssertionError, match="threads"):
        check_codec(broken(compress=shared_state()), isolated=False)
