"""Strategies of the parts of batches."""

from __future__ import annotations

from hypothesis import strategies as st

from kqueue.records.record import Record

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

payloads = (
    st.none()
    | st.binary(max_size=300)
    | st.builds(lambda byte, count: bytes([byte]) * count, st.integers(0, 255), st.integers(0, 20_000))
)
# in one batch times differ by less than 2**63, or the builder refuses them
timestamps = st.integers(-1, 2**63 - 2) | st.integers(1_600_000_000_000, 1_600_000_100_000)
header_lists = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=30)), max_size=4).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn, *, gaps: bool = False, min_size: int = 1) -> list[Record]:
    """Records with offsets that rise, by one unless `gaps`."""
    count = draw(st.integers(min_size, 12))
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(count):
        records.append(Record(offset, draw(timestamps), draw(payloads), draw(payloads), draw(header_lists)))
        offset += draw(st.integers(1, 1000)) if gaps else 1
    return records
