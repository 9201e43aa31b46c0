from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kqueue.network.region_sender import READ_BYTES, STEP_BYTES, RegionSender
from kqueue.storage import LocalStorage, MemoryStorage, Region


class Probed:
    """A file that is not cached from `cold_from` on, and counts its probes."""

    def __init__(self, size: int, cold_from: int) -> None:
        self.size = size
        self.cold_from = cold_from
        self.probes: list[tuple[int, int]] = []

    def read_at(self, position: int, size: int) -> bytes:
        return b"x" * min(size, self.size - position)

    def fileno(self) -> int | None:
        return None

    def is_cached(self, position: int, size: int) -> bool:
        self.probes.append((position, size))
        return position + size <= self.cold_from


def send_all(sender: RegionSender) -> bytes:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        parts = []
        while sender.remaining_bytes:
            sender.uncached_step()
            sent = sender.send(near)
            while sent:
                parts.append(far.recv(sent))
                sent -= len(parts[-1])
    return b"".join(parts)


@pytest.mark.parametrize("size", [1, READ_BYTES, STEP_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES])
@pytest.mark.parametrize("backend", ["local", "memory"])
def test_region_is_sent_exactly(backend: str, size: int, tmp_path: Path) -> None:
    file = (LocalStorage(str(tmp_path)) if backend == "local" else MemoryStorage()).open("f", create=True)
    data = bytes(range(251)) * (size // 251 + 1)
    file.append(b"before" + data[:size] + b"after")
    assert send_all(RegionSender(file.region(6, size))) == data[:size]


def test_each_step_is_probed_once_and_cold_steps_are_reported() -> None:
    source = Probed(3 * STEP_BYTES, cold_from=STEP_BYTES + 10)
    sender = RegionSender(Region(source, 10, 2 * STEP_BYTES + 5))
    assert sender.uncached_step() is None
    assert sender.uncached_step() is None
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        while sender.remaining_bytes > STEP_BYTES + 5:
            assert sender.uncached_step() is None
            far.recv(sender.send(near))
        cold = sender.uncached_step()
        assert cold is not None
        assert (cold.position, cold.size) == (10 + STEP_BYTES, STEP_BYTES)
        assert sender.uncached_step() is None, "asked once; from then on it counts as read"
    assert source.probes == [(10, STEP_BYTES), (10 + STEP_BYTES, STEP_BYTES)]


def test_full_socket_raises_blocking_io_error() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        sender = RegionSender(Region(Probed(64 * STEP_BYTES, 64 * STEP_BYTES), 0, 64 * STEP_BYTES))
        left = []
        with pytest.raises(BlockingIOError):  # noqa: PT012
            while True:
                sender.uncached_step()
                sender.send(near)
                left.append(sender.remaining_bytes)
        assert sender.remaining_bytes == left[-1], "what was not sent is still to be sent"
