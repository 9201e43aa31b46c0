"""Random logs: compressed and transactional batches, gaps, several leaders, and random segments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from kqueue.log.follower_log import append_replicated
from kqueue.log.log import Log
from kqueue.records.batch import ABORT, COMMIT, iter_batches, stamp
from kqueue.tests.log.helpers import START_MS, batch, marker, open_log
from kqueue.tests.records.strategies import CODEC_NAMES

PRODUCERS = (5, 6, 7)


@dataclass
class DrawnLog:
    """Batches of a log, with their offsets and leader epochs."""

    batches: list[bytes] = field(default_factory=list)
    end_offset: int = 0

    def add(self, buf: bytearray, leader_epoch: int, gap: int = 0) -> None:
        [(_, header)] = iter_batches(bytes(buf))
        stamp(buf, 0, self.end_offset + gap, leader_epoch)
        self.batches.append(bytes(buf))
        self.end_offset += gap + header.last_offset_delta + 1

    def open(self, rolls: set[int], **settings: Any) -> Log:
        """Return a log with the batches; it rolls before these, and at its end."""
        log = open_log(**{"index_interval_bytes": 0, **settings})
        for number, data in enumerate(self.batches):
            if number in rolls:
                log.roll()
            append_replicated(log, memoryview(data), 100)
        log.roll()
        assert log.end_offset == self.end_offset
        return log


@st.composite
def drawn_logs(draw: st.DrawFn, *, min_size: int = 1, max_size: int = 25) -> DrawnLog:
    log, epoch = DrawnLog(), 0
    open_producers: set[int] = set()
    sequences = dict.fromkeys(PRODUCERS, 0)
    for _ in range(draw(st.integers(min_size, max_size))):
        kind = draw(st.sampled_from(["plain", "plain", "transactional", "transactional", "end", "end", "leader"]))
        time_ms = START_MS + draw(st.integers(-50, 50))
        values = [bytes([number]) * draw(st.integers(0, 60)) for number in range(draw(st.integers(1, 4)))]
        if kind == "leader":
            epoch += draw(st.integers(1, 2))
        elif kind == "plain":
            gap = draw(st.sampled_from([0, 0, 0, 3]))
            log.add(batch(*values, time_ms=time_ms, codec=draw(st.sampled_from(CODEC_NAMES))), epoch, gap)
        elif kind == "transactional":
            producer = draw(st.sampled_from(PRODUCERS))
            open_producers.add(producer)
            sequence, sequences[producer] = sequences[producer], sequences[producer] + len(values)
            log.add(
                batch(
                    *values, time_ms=time_ms, producer_id=producer, epoch=0, base_sequence=sequence, transactional=True
                ),
                epoch,
            )
        elif open_producers:
            producer = draw(st.sampled_from(sorted(open_producers)))
            open_producers.remove(producer)
            log.add(marker(draw(st.sampled_from([COMMIT, ABORT])), producer, time_ms=time_ms), epoch)
    if not log.batches:
        log.add(batch(b"x"), epoch)
    return log
