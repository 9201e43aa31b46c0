from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import MalformedMessage
from kqueue.network.memory_budgets import RequestBudget
from kqueue.network.receive_buffer import HELD_BYTES_MAX, RECEIVE_BYTES, BufferPool, ReceiveBuffer

KiB = 1024
LIMIT = 1024 * KiB


class Nobody:
    def resume(self) -> None: ...


def make_intake(
    shared: bytearray | None = None, budget: RequestBudget | None = None, buffers: BufferPool | None = None
) -> ReceiveBuffer:
    return ReceiveBuffer(
        memoryview(shared or bytearray(RECEIVE_BYTES)),
        buffers or BufferPool(),
        budget or RequestBudget(None),
        Nobody(),
        LIMIT,
    )


def receive(receive_buffer: ReceiveBuffer, data: memoryview) -> int:
    """What a socket would do: fill the room with what there is."""
    room = receive_buffer.space()
    assert len(room) > 0
    count = min(len(room), len(data))
    room[:count] = data[:count]
    receive_buffer.added(count)
    return count


def drain(receive_buffer: ReceiveBuffer, count_max: int = 10**9) -> list[bytes]:
    """End the turn; whole requests are overwritten, as handlers may do."""
    found = []
    while len(found) < count_max and (frame := receive_buffer.next_frame()) is not None:
        found.append(bytes(frame))
        frame[:] = b"\xdd" * len(frame)
    receive_buffer.save()
    return found


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
def test_however_the_bytes_arrive_the_requests_are_the_same(
    sizes: list[int], cuts: list[int], data: st.DataObject
) -> None:
    requests = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    stream = memoryview(b"".join(len(request).to_bytes(4, "big") + request for request in requests))
    shared, budget, buffers = bytearray(RECEIVE_BYTES), RequestBudget(None), BufferPool()
    receive_buffer, other = make_intake(shared, budget, buffers), make_intake(shared, budget, buffers)
    found: list[bytes] = []
    position = 0
    while position < len(stream) or len(found) < len(requests):
        if position < len(stream):
            cut = position + (cuts.pop() if cuts else len(stream))
            position += receive(receive_buffer, stream[position:cut])
        # a pause after some requests: the rest is kept, and looked at again before anything more is
        # received
        at_most = data.draw(st.integers(0, 3)) if len(found) < 20 else 100
        found += drain(receive_buffer, at_most)
        receive(other, memoryview(b"\0\0\1\0" + b"other connection"))
        drain(other)
        other.close()
        receive_buffer.restore()
        found += drain(receive_buffer)
    assert found == requests
    assert not receive_buffer.has_partial
    assert budget.used == 0


@pytest.mark.parametrize("length", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_length_below_zero_or_above_the_limit_is_refused_with_its_four_bytes(length: int) -> None:
    buffers = BufferPool()
    receive_buffer = make_intake(buffers=buffers)
    receive(receive_buffer, memoryview(length.to_bytes(4, "big", signed=True)))
    with pytest.raises(MalformedMessage, match=f"found {length}"):
        receive_buffer.next_frame()


@pytest.mark.parametrize(("start", "guess"), [(b"GET ", "HTTP"), (b"POST", "HTTP"), (b"\x16\x03\x01\x00", "TLS")])
def test_who_speaks_another_protocol_is_told_apart(start: bytes, guess: str) -> None:
    receive_buffer = make_intake()
    receive(receive_buffer, memoryview(start))
    with pytest.raises(MalformedMessage, match=guess):
        receive_buffer.next_frame()


def test_a_connection_that_is_idle_owns_no_memory_and_one_within_a_request_no_more_than_has_come() -> None:
    receive_buffer = make_intake()
    receive(receive_buffer, memoryview(b"\0\0\0\2hi\0\0"))
    assert drain(receive_buffer) == [b"hi"]
    assert receive_buffer.has_partial
    assert receive_buffer._saved == b"\0\0"
    receive(receive_buffer, memoryview(b"\0\1!"))
    assert drain(receive_buffer) == [b"!"]
    assert not receive_buffer.has_partial
    assert (receive_buffer._saved, receive_buffer._large) == (b"", None)


def test_a_large_request_counts_what_has_arrived_not_what_its_length_promises() -> None:
    budget = RequestBudget(None)
    receive_buffer = make_intake(budget=budget)
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


def test_memory_that_the_system_refuses_is_an_error_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = BufferPool()

    def refuse(size: int) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(buffers, "acquire", refuse)
    receive_buffer = make_intake(buffers=buffers)
    receive(receive_buffer, memoryview(LIMIT.to_bytes(4, "big")))
    with pytest.raises(OSError, match="allocate"):
        drain(receive_buffer)


@given(st.lists(st.integers(1, 40 * KiB * KiB), max_size=10))
def test_buffers_are_large_enough_and_few_are_kept(sizes: list[int]) -> None:
    buffers = BufferPool()
    taken = [buffers.acquire(size) for size in sizes]
    assert all(len(buffer) >= size for buffer, size in zip(taken, sizes, strict=True))
    for buffer in taken:
        buffers.release(buffer)
    assert buffers.kept_bytes <= BufferPool.KEPT_BYTES_MAX
    for size in sizes:
        kept = buffers.kept_bytes
        buffer = buffers.acquire(size)
        assert len(buffer) >= size
        assert buffers.kept_bytes in (kept, kept - len(buffer))
    buffers.clear()
    assert buffers.kept_bytes == 0
