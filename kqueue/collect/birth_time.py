"""Returns when a file was created.

A file system may give the inode of a removed file to the next one at once, so device and inode
alone do not identify a file. Python 3.11 has no `statx`, so it is called by `ctypes`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from collections.abc import Callable

STATX_BTIME = 0x800  # linux/stat.h
AT_EMPTY_PATH = 0x1000
STATX_BYTES = 256
BTIME_OFFSET = 80  # __s64 seconds, __u32 nanoseconds


def birth_time_ns(file: int) -> int | None:
    """Return when the open file was created, nanoseconds since 1970.

    None: the system or the file system does not record it.
    """
    status = os.fstat(file)
    seconds: float | None = getattr(status, "st_birthtime", None)  # macOS, FreeBSD; Windows from Python 3.12 on
    if seconds is not None:
        return int(getattr(status, "st_birthtime_ns", seconds * 1_000_000_000))
    call = _statx()
    if call is None:
        return None
    buffer = ctypes.create_string_buffer(STATX_BYTES)
    if call(file, b"", AT_EMPTY_PATH, STATX_BTIME, buffer) != 0:
        return None
    (mask,) = struct.unpack_from("=I", buffer)
    if not mask & STATX_BTIME:
        return None
    whole_s, rest_ns = struct.unpack_from("=qI", buffer, BTIME_OFFSET)
    return int(whole_s * 1_000_000_000 + rest_ns)


@functools.cache
def _statx() -> Callable[..., int] | None:
    """Return the C library's `statx`; None: it has none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        call = ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
    call.restype = ctypes.c_int
    return call
