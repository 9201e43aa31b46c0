"""The file `repaired-gaps` of a partition folder: offset ranges that a repair found missing.

Later checks report them as known losses. Brokers ignore the file. Its lines: "0" (version), the
number of ranges, then "first end" for each range, end exclusive.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.errors import CorruptIndex

GAPS = "repaired-gaps"


def encode_gaps(gaps: Iterable[tuple[int, int]]) -> bytes:
    """Return the file's bytes."""
    rows = sorted(set(gaps))
    return ("\n".join(["0", str(len(rows)), *(f"{first} {end}" for first, end in rows)]) + "\n").encode()


def decode_gaps(data: bytes) -> list[tuple[int, int]]:
    """Return the ranges of such a file. Raises: CorruptIndex."""
    try:
        version, count, *lines = data.decode("ascii").splitlines()
        rows = [(int(first), int(end)) for first, end in (line.split(" ") for line in lines)]
        if version != "0" or len(rows) != int(count) or any(not 0 <= first < end for first, end in rows):
            raise ValueError(f"version {version}, {len(rows)} of {count} lines")
    except ValueError as error:
        raise CorruptIndex(f"the list of gaps can't be read: {error}") from None
    return rows
