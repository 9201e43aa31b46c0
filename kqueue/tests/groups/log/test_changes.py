from __future__ import annotations

from kqueue.groups.log.changes import Changes


def test_changes_are_taken_back_from_the_last_one_on() -> None:
    changes, memory = Changes(), [1, 2, 3]
    changes.add(b"1", b"", lambda: memory.remove(1))
    changes.add_unlogged(lambda: memory.remove(2))
    changes.add(b"3", None, memory.pop)
    assert changes.records() == [(b"1", b""), (b"3", None)]
    assert changes.records(1, 2) == []
    changes.roll_back(1)
    assert (memory, changes.records()) == ([1], [(b"1", b"")])
    changes.roll_back()
    assert not memory
