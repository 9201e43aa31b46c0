from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from kqueue.collect import prefix_hash
from kqueue.collect.prefix_hash import PrefixHash


def test_prefix_hash_moved_over_parts_equals_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntwo\nthree\n")
    prefix = PrefixHash().moved(b"one\n").moved(b"").moved(b"two\n")
    assert prefix.digest() == hashlib.sha256(b"one\ntwo\n").hexdigest()
    with (tmp_path / "log").open("rb") as file:
        assert PrefixHash.of(file.fileno(), 8) == prefix
        assert PrefixHash.of(file.fileno(), 7) != prefix
        assert PrefixHash.of(file.fileno(), 15) is None


def test_prefix_hash_covers_no_more_than_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_hash, "PREFIX_BYTES_MAX", 6)
    (tmp_path / "log").write_bytes(b"one\ntwo\nthree\n")
    with (tmp_path / "log").open("rb") as file:
        limited = PrefixHash.of(file.fileno(), 14)
    assert limited == PrefixHash().moved(b"one\n").moved(b"two\nthree\n")
    assert limited.digest() == hashlib.sha256(b"one\ntw").hexdigest()


def test_prefix_hash_is_not_changed_by_moving_on() -> None:
    prefix = PrefixHash().moved(b"a")
    prefix.moved(b"b")
    assert prefix == PrefixHash().moved(b"a")
    assert hash(prefix) == hash(PrefixHash().moved(b"a"))
