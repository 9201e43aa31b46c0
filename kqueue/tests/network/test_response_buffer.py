from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import MalformedMessage
from kqueue.network.contract import BudgetWaiter
from kqueue.network.memory_budgets import RequestBudget
from kqueue.network.response_buffer import COUNTED_BYTES_MIN, CountedBytes, ResponseBuffer
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

SHARED = 128 * 1024


class Waiter:
    def resume(self) -> None:
        pass


def new_buffer(budget: RequestBudget, bytes_max: int = 1 << 20) -> ResponseBuffer:
    def release(connection: BudgetWaiter, counted: CountedBytes) -> None:
        budget.release_request(connection, counted.used)

    return ResponseBuffer(memoryview(bytearray(SHARED)), budget, Waiter(), release, bytes_max)


SIZES = st.one_of(
    st.integers(0, 20),
    st.sampled_from([COUNTED_BYTES_MIN - 1, COUNTED_BYTES_MIN, SHARED - 4, SHARED - 3, SHARED, 300_000]),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(SIZES, max_size=8), st.lists(st.sampled_from([1, 2, 3, 4, 5, 100, 70_000, 1 << 20]), min_size=1))
def test_frames_come_out_as_they_went_in_however_they_are_cut(sizes: list[int], cuts: list[int]) -> None:
    budget = RequestBudget(None)
    buffer = new_buffer(budget)
    payloads = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    stream = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
    frames: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        space = buffer.space()
        assert len(space)
        # a cut of 1 to 3 bytes of a large stream would take too long
        count = min(len(space), len(stream) - position, max(cuts[turn % len(cuts)], len(stream) // 500))
        space[:count] = stream[position : position + count]
        position += count
        turn += 1
        buffer.added(count)
        while (frame := buffer.next_frame()) is not None:
            frames.append(bytes(frame))
            del frame
    if stream:
        del space  # may be a view of the last response
    assert frames == payloads
    assert not buffer.has_partial
    assert budget.used == 0


@for_each("length", [-1, 1001, 2**31 - 1])
def test_a_wrong_length_is_refused_before_anything_is_allocated(length: int) -> None:
    budget = RequestBudget(None)
    buffer = new_buffer(budget, 1000)
    buffer.space()[:4] = length.to_bytes(4, "big", signed=True)
    buffer.added(4)
    with pytest.raises(MalformedMessage, match="expected a frame of 0 to 1000 bytes"):
        buffer.next_frame()
    assert budget.used == 0


def test_a_partial_response_is_released_by_close() -> None:
    budget = RequestBudget(None)
    buffer = new_buffer(budget)
    buffer.space()[:104] = (500_000).to_bytes(4, "big") + bytes(100)
    buffer.added(104)
    assert buffer.next_frame() is None
    assert buffer.has_partial
    assert budget.used == 100
    buffer.close()
    assert not buffer.has_partial
    assert budget.used == 0
