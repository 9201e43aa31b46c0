from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import MalformedMessage
from kqueue.network.connection_quotas import RequestBudget
from kqueue.network.receive_buffer import HELD_BYTES_MAX, RECEIVE_BYTES, BufferPool, ReceiveBuffer

KiB = 1024
LIMIT = 1024 * KiB


class Nobody:
    def go_on(self) -> None: ...


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


def receive(intake: ReceiveBuffer, data: memoryview) -> int:
    """What a socket would do: fill the room with what there is."""
    room = intake.room()
    assert len(room) > 0
    count = min(len(room), len(data))
    room[:count] = data[:count]
    intake.add(count)
    return count


def drain(intake: ReceiveBuffer, count_max: int = 10**9) -> list[bytes]:
    """End the turn; whole requests are overwritten, as handlers may do."""
    found = []
    while len(found) < count_max and (frame := intake.next()) is not None:
        found.append(bytes(frame))
        frame[:] = b"\xdd" * len(frame)
    intake.keep()
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
    intake, other = make_intake(shared, budget, buffers), make_intake(shared, budget, buffers)
    found: list[bytes] = []
    position = 0
    while position < len(stream) or len(found) < len(requests):
        if position < len(stream):
            cut = position + (cuts.pop() if cuts else len(stream))
            position += receive(intake, stream[position:cut])
        # a pause after some requests: the rest is kept, and looked at again before anything more is
        # received
        at_most = data.draw(st.integers(0, 3)) if len(found) < 20 else 100
        found += drain(intake, at_most)
        receive(other, memoryview(b"\0\0\1\0" + b"other connection"))
        drain(other)
        other.close()
        intake.again()
        found += drain(intake)
    assert found == requests
    assert not intake.in_request
    assert budget.used == 0


@pytest.mark.parametrize("length", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_length_below_zero_or_above_the_limit_is_refused_with_its_four_bytes(length: int) -> None:
    buffers = BufferPool()
    intake = make_intake(buffers=buffers)
    receive(intake, memoryview(length.to_bytes(4, "big", signed=True)))
    with pytest.raises(MalformedMessage, match=f"found {length}"):
        intake.next()


@pytest.mark.parametrize(("start", "guess"), [(b"GET ", "HTTP"), (b"POST", "HTTP"), (b"\x16\x03\x01\x00", "TLS")])
def test_who_speaks_another_protocol_is_told_apart(start: bytes, guess: str) -> None:
    intake = make_intake()
    receive(intake, memoryview(start))
    with pytest.raises(MalformedMessage, match=guess):
        intake.next()


def test_a_connection_that_is_idle_owns_no_memory_and_one_within_a_request_no_more_than_has_come() -> None:
    intake = make_intake()
    receive(intake, memoryview(b"\0\0\0\2hi\0\0"))
    assert drain(intake) == [b"hi"]
    assert intake.in_request
    assert intake._held == b"\0\0"
    receive(intake, memoryview(b"\0\1!"))
    assert drain(intake) == [b"!"]
    assert not intake.in_request
    assert (intake._held, intake._large) == (b"", None)


def test_a_large_request_counts_what_has_arrived_not_what_its_length_promises() -> None:
    budget = RequestBudget(None)
    intake = make_intake(budget=budget)
    receive(intake, memoryview(LIMIT.to_bytes(4, "big") + b"abc"))
    assert drain(intake) == []
    assert intake.is_large
    assert budget.used == 3
    receive(intake, memoryview(b"defg"))
    assert drain(intake) == []
    assert budget.used == 7
    intake.close()
    assert budget.used == 0
    assert not intake.in_request


def test_memory_that_the_system_refuses_is_an_error_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers = BufferPool()

    def refuse(size: int) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(buffers, "take", refuse)
    intake = make_intake(buffers=buffers)
    receive(intake, memoryview(LIMIT.to_bytes(4, "big")))
    with pytest.raises(OSError, match="allocate"):
        drain(intake)


@given(st.lists(st.integers(1, 40 * KiB * KiB), max_size=10))
def test_buffers_are_large_enough_and_few_are_kept(sizes: list[int]) -> None:
    buffers = BufferPool()
    taken = [buffers.take(size) for size in sizes]
    assert all(len(buffer) >= size for buffer, size in zip(taken, sizes, strict=True))
    for buffer in taken:
        buffers.give_back(buffer)
    assert buffers.kept_bytes <= BufferPool.KEPT_BYTES_MAX
    for size in sizes:
        kept = buffers.kept_bytes
        buffer = buffers.take(size)
        assert len(buffer) >= size
        assert buffers.kept_bytes in (kept, kept - len(buffer))
    buffers.forget()
    assert buffers.kept_bytes == 0
