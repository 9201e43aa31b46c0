from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import MalformedMessage
from kqueue.network.memory_budgets import RequestBudget
from kqueue.network.receive_buffer import HELD_BYTES_MAX, RECEIVE_BYTES, BufferPool, ReceiveBuffer
from kqueue.tests.compiled import replaces_compiled
from kqueue.tests.tables import for_each

KiB = 1024
LIMIT = 1024 * KiB


class NoOwner:
    def resume(self) -> None: ...


def make_receive_buffer(
    shared: bytearray | None = None, budget: RequestBudget | None = None, buffers: BufferPool | None = None
) -> ReceiveBuffer:
    return ReceiveBuffer(
        memoryview(shared or bytearray(RECEIVE_BYTES)),
        buffers or BufferPool(),
        budget or RequestBudget(None),
        NoOwner(),
        LIMIT,
    )


def receive(receive_buffer: ReceiveBuffer, data: memoryview) -> int:
    """Fill the buffer's free space, as a socket does."""
    room = receive_buffer.space()
    assert len(room) > 0
    count = min(len(room), len(data))
    room[:count] = data[:count]
    receive_buffer.added(count)
    return count


def drain(receive_buffer: ReceiveBuffer, count_max: int = 10**9) -> list[bytes]:
    """Return the complete requests, overwrite them as handlers may do, and end the turn."""
    frames = []
    while len(frames) < count_max and (frame := receive_buffer.next_frame()) is not None:
        frames.append(bytes(frame))
        frame[:] = b"\xdd" * len(frame)
    receive_buffer.save()
    return frames


SIZES = st.one_of(
    st.integers(0, 40),
    st.sampled_from(
        [
            HELD_BYTES_MAX - 1,
            HELD_BYTES_MAX,
            HELD_BYTES_MAX + 1,
            RECEIVE_BYTES - 4,
            RECEIVE_BYTES,
            RECEIVE_BYTES + 1,
            300 * KiB,
        ]
    ),
)


@given(sizes=st.lists(SIZES, max_size=12), cuts=st.lists(st.integers(1, 200 * KiB), max_size=60), data=st.data())
def test_requests_do_not_depend_on_how_bytes_arrive(sizes: list[int], cuts: list[int], data: st.DataObject) -> None:
    requests = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    stream = memoryview(b"".join(len(request).to_bytes(4, "big") + request for request in requests))
    shared, budget, buffers = bytearray(RECEIVE_BYTES), RequestBudget(None), BufferPool()
    receive_buffer, other = make_receive_buffer(shared, budget, buffers), make_receive_buffer(shared, budget, buffers)
    frames: list[bytes] = []
    position = 0
    while position < len(stream) or len(frames) < len(requests):
        if position < len(stream):
            cut = position + (cuts.pop() if cuts else len(stream))
            position += receive(receive_buffer, stream[position:cut])
        # a pause after some requests: the rest is kept and drained before the next receive
        at_most = data.draw(st.integers(0, 3)) if len(frames) < 20 else 100
        frames += drain(receive_buffer, at_most)
        receive(other, memoryview(b"\0\0\1\0" + b"other connection"))
        drain(other)
        other.close()
        receive_buffer.restore()
        frames += drain(receive_buffer)
    assert frames == requests
    assert not receive_buffer.has_partial
    assert budget.used == 0


@for_each("length", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_invalid_length_is_refused_after_its_four_bytes(length: int) -> None:
    buffers = BufferPool()
    receive_buffer = make_receive_buffer(buffers=buffers)
    receive(receive_buffer, memoryview(length.to_bytes(4, "big", signed=True)))
    with pytest.raises(MalformedMessage, match=f"found {length}"):
        receive_buffer.next_frame()


@for_each("start, guess", [(b"GET ", "HTTP"), (b"POST", "HTTP"), (b"\x16\x03\x01\x00", "TLS")])
def test_other_protocols_are_recognised(start: bytes, guess: str) -> None:
    receive_buffer = make_receive_buffer()
    receive(receive_buffer, memoryview(start))
    with pytest.raises(MalformedMessage, match=guess):
        receive_buffer.next_frame()


def test_buffer_holds_no_memory_when_idle_and_only_received_bytes_otherwise() -> None:
    receive_buffer = make_receive_buffer()
    receive(receive_buffer, memoryview(b"\0\0\0\2hi\0\0"))
    assert drain(receive_buffer) == [b"hi"]
    assert receive_buffer.has_partial
    assert receive_buffer._saved == b"\0\0"
    receive(receive_buffer, memoryview(b"\0\1!"))
    assert drain(receive_buffer) == [b"!"]
    assert not receive_buffer.has_partial
    assert (receive_buffer._saved, receive_buffer._large) == (b"", None)


def test_large_request_counts_received_bytes_not_its_announced_length() -> None:
    budget = RequestBudget(None)
    receive_buffer = make_receive_buffer(budget=budget)
    receive(receive_buffer, memoryview(LIMIT.to_bytes(4, "big") + b"abc"))
    assert drain(receive_buffer) == []
    assert receive_buffer.is_large
    assert budget.used == 3
    receive(receive_buffer, memoryview(b"defg"))
    assert drain(receive_buffer) == []
    assert budget.used == 7
    receive_buffer.close()
    assert budget.used == 0
    assert not receive_buffer.has_partial


@replaces_compiled
def test_failed_allocation_is_an_error_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = BufferPool()

    def refuse(size: int) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(buffers, "acquire", refuse)
    receive_buffer = make_receive_buffer(buffers=buffers)
    receive(receive_buffer, memoryview(LIMIT.to_bytes(4, "big")))
    with pytest.raises(OSError, match="allocate"):
        drain(receive_buffer)


@given(st.lists(st.integers(1, 40 * KiB * KiB), max_size=10))
def test_buffers_are_large_enough_and_few_are_pooled(sizes: list[int]) -> None:
    buffers = BufferPool()
    acquired = [buffers.acquire(size) for size in sizes]
    assert all(len(buffer) >= size for buffer, size in zip(acquired, sizes, strict=True))
    for buffer in acquired:
        buffers.release(buffer)
    assert buffers.kept_bytes <= BufferPool.KEPT_BYTES_MAX
    for size in sizes:
        kept = buffers.kept_bytes
        buffer = buffers.acquire(size)
        assert len(buffer) >= size
        assert buffers.kept_bytes in (kept, kept - len(buffer))
    buffers.clear()
    assert buffers.kept_bytes == 0
