from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.rest.body import parse_body, read_body
from kqueue.tests.tables import for_each


class Chunks:
    """A body that counts what is read of it."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for size in self.sizes:
            self.read += size
            yield b"x" * size


def body(chunks: Chunks, length: str | None = None) -> bytes:
    return asyncio.run(read_body(aiter(chunks), length, 100))


def test_body_is_read_up_to_the_bound() -> None:
    assert body(Chunks(60, 40)) == b"x" * 100
    assert body(Chunks()) == b""


def test_body_beyond_the_bound_is_not_read_to_its_end() -> None:
    chunks = Chunks(*[60] * 1000)
    with pytest.raises(RegistryError) as caught:
        body(chunks)
    assert caught.value.status == 413
    assert chunks.read == 120


@for_each("length", ["101", "9" * 10_000])
def test_body_that_says_it_is_too_long_is_not_read_at_all(length: str) -> None:
    chunks = Chunks(10)
    with pytest.raises(RegistryError) as caught:
        body(chunks, length)
    assert caught.value.status == 413
    assert chunks.read == 0


def test_length_that_is_no_number_is_not_believed() -> None:
    assert body(Chunks(10), "-5") == b"x" * 10


@for_each(
    "text",
    [b"", b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000, b'{"a": ' + b"9" * 100_000 + b"}", b"{} {}", b"Infinity"],
)
def test_body_that_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(RegistryError) as caught:
        parse_body(text)
    assert caught.value.code == 400
    assert len(str(caught.value)) < 300


def test_body_is_json() -> None:
    assert parse_body(b'{"a": [1, "\\u00fc"]}') == {"a": [1, "ü"]}
