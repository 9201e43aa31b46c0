"""Keeps off the screen what a Java says on its own."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def errors_to(file: Path) -> Iterator[None]:
    """Let standard error of the whole process go to the end of `file` during the block; what is started in it writes there to its end.

    So a Spark that is started in it says on no screen that it is there, what it warns of, and how it ends. Raises OSError: no such file.
    """
    with file.open("ab") as out:
        sys.stderr.flush()
        kept = os.dup(2)
        try:
            os.dup2(out.fileno(), 2)
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
