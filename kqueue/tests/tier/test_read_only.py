from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.tier.read_only import ReadOnlyFile, RefusedWrites

DATA = b"0123456789"


def file_of() -> ReadOnlyFile:
    return ReadOnlyFile("t-0/x.log", len(DATA), lambda at, size: DATA[at : at + size], lambda at, size: at == 0)


def test_file_is_read_as_its_functions_say() -> None:
    file = file_of()
    assert (file.size, file.read_at(8, 5), file.region(2, 3).read()) == (10, b"89", b"234")
    assert (file.is_cached(0, 1), file.is_cached(1, 1)) == (True, False)
    assert (file.fileno(), file.age_ms()) == (None, None)
    file.close()


@pytest.mark.parametrize(
    ("of", "change"),
    [
        (RefusedWrites, lambda storage: storage.make_folder("t-0/x.log")),
        (RefusedWrites, lambda storage: storage.remove("t-0/x.log")),
        (RefusedWrites, lambda storage: storage.rename("t-0/x.log", "b")),
        (RefusedWrites, lambda storage: storage.sync_folder("t-0/x.log")),
        (RefusedWrites, lambda storage: storage.write_atomic("t-0/x.log", b"")),
        (RefusedWrites, lambda storage: storage.lock("t-0/x.log")),
        (file_of, lambda file: file.append(b"")),
        (file_of, lambda file: file.truncate(0)),
        (file_of, lambda file: file.sync()),
    ],
)
def test_nothing_is_written(of: Callable[[], Any], change: Callable[[Any], object]) -> None:
    with pytest.raises(StorageFailed, match="t-0/x.log is in the tier, where segments never change"):
        change(of())
