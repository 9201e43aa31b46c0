"""Python functions as machine code, by numba, and what several groups of them share. Importing it
needs `kqueue[fast]`.

numba keeps compiled code beside the file of a function (or where NUMBA_CACHE_DIR says), and makes
it anew when that file changes, but not when a file changes whose functions it calls. `compiled`
adds those files, and what they call, to what the kept code is compared with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import int64, njit, uint64

WRONG = -1
_FILES = "files_used"  # attribute of what is compiled


def compiled(function: Callable[..., Any]) -> Any:
    """Compile on first use, without the interpreter's lock; keep the code for the next process
    where there is a folder to keep it in.

    What `function` calls has to be defined before it, as names of its module.
    """
    try:
        made = njit(cache=True, nogil=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)
    files = {function.__code__.co_filename}
    for name in function.__code__.co_names:
        files |= getattr(function.__globals__.get(name), _FILES, set())
    setattr(made, _FILES, files)
    with contextlib.suppress(
        AttributeError
    ):  # another numba may call it otherwise: then a change is noticed as numba does by itself
        made._cache._cache_file._source_stamp = tuple((path, *_stamp(path)) for path in sorted(files))
    return made


def _stamp(path: str) -> tuple[int, int]:
    found = Path(path).stat()
    return found.st_mtime_ns, found.st_size


@compiled
def read_varint(data: Any, pos: int, end: int) -> tuple[int, int]:
    """The number of 32 bits at `pos`, still zigzagged, and the position after it; WRONG as
    position: it leaves the data, or 32 bits.
    """
    raw = int64(0)
    shift = int64(0)
    while pos < end and shift < 35:
        byte = int64(data[pos])
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw, pos) if raw >> 32 == 0 else (int64(0), int64(WRONG))
        shift += 7
    return int64(0), int64(WRONG)


@compiled
def read_varlong(data: Any, pos: int, end: int) -> tuple[int, int]:
    """The signed number of 64 bits at `pos` and the position after it; WRONG as position: it leaves
    the data, or 64 bits.
    """
    raw = uint64(0)
    shift = uint64(0)
    while pos < end and shift < uint64(70):
        byte = uint64(data[pos])
        pos += 1
        if shift == uint64(63) and byte > uint64(1):
            break
        raw |= (byte & uint64(0x7F)) << shift
        if byte < uint64(0x80):
            return int64(raw >> uint64(1)) ^ -int64(raw & uint64(1)), pos
        shift += uint64(7)
    return int64(0), int64(WRONG)


@compiled
def copy_bytes(source: Any, start: int, size: int, target: Any, at: int) -> None:
    """Copy `size` bytes, from 0 on: a loop over numbers without sign, which becomes a block move;
    others, and slices, don't.
    """
    first, place = uint64(start), uint64(at)
    for number in range(uint64(size)):
        target[place + number] = source[first + number]
