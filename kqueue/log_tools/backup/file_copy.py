"""Copies of single files: shared blocks, a second name, or bytes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

FICLONE = 0x40049409
"""Of Linux: let a file share the blocks of another one (btrfs, XFS, bcachefs, overlays of them)."""
CHUNK_BYTES = 1024 * 1024


def copy_file(source: Path, target: Path, size: int, *, may_link: bool, add: Callable[[int], None]) -> None:
    """Copy the first `size` bytes of a file into a new one, and make them durable.

    Blocks are shared where the file system can: a later change of either file is not seen in the
    other one.

    Args:
        may_link: nothing changes the file any more, so a hard link will do if blocks can't be
            shared.
        add: called with each number of bytes that are done.
    Raises: OSError: also FileNotFoundError. It is shorter than `size`: EOFError.
    """
    with source.open("rb") as original:
        if os.fstat(original.fileno()).st_size < size:
            raise EOFError(f"{source} has become shorter than {size} bytes")
        with target.open("xb") as copy:
            is_shared = _share_blocks(original, copy)
            if is_shared:
                copy.truncate(size)
                os.fsync(copy.fileno())
    if is_shared:
        add(size)
        return
    if may_link and source.stat().st_size == size:
        target.unlink()
        with contextlib.suppress(OSError):  # another file system, or one without links
            os.link(source, target)
            add(size)
            return
    _copy_bytes(source, target, size, add)


def _share_blocks(original: BinaryIO, copy: BinaryIO) -> bool:
    if sys.platform != "linux":
        return False
    import fcntl

    try:
        fcntl.ioctl(copy.fileno(), FICLONE, original.fileno())
    except OSError:
        return False
    return True


def _copy_bytes(source: Path, target: Path, size: int, add: Callable[[int], None]) -> None:
    with source.open("rb") as original, target.open("wb") as copy:
        left = size
        while left:
            data = original.read(min(left, CHUNK_BYTES))
            if not data:
                raise EOFError(f"{source} has become shorter than {size} bytes")
            copy.write(data)
            left -= len(data)
            add(len(data))
        copy.flush()
        os.fsync(copy.fileno())
