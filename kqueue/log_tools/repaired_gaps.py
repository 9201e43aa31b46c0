"""`repaired-gaps`, in a partition's folder: the offsets that were missing after a repair, so that
they are known to be lost.

"0" (version), number of lines, then a line "first end" for each, end exclusive. Brokers pass it
over.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.errors import CorruptIndex

GAPS = "repaired-gaps"


def encode_gaps(gaps: Iterable[tuple[int, int]]) -> bytes:
    """The file's bytes."""
    rows = sorted(set(gaps))
    return ("\n".join(["0", str(len(rows)), *(f"{first} {end}" for first, end in rows)]) + "\n").encode()


def decode_gaps(data: bytes) -> list[tuple[int, int]]:
    """Read such a file. Raises CorruptIndex."""
    try:
        version, count, *lines = data.decode("ascii").splitlines()
        rows = [(int(first), int(end)) for first, end in (line.split(" ") for line in lines)]
        if version != "0" or len(rows) != int(count) or any(not 0 <= first < end for first, end in rows):
            raise ValueError(f"version {version}, {len(rows)} of {count} lines")
    except ValueError as error:
        raise CorruptIndex(f"the list of gaps can't be read: {error}") from None
    return rows
