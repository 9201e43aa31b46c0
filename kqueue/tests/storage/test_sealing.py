"""The storages that encrypt secrets of others."""

from __future__ import annotations

from kqueue.storage import DelegatingStorage, MemoryStorage
from kqueue.storage.sealing import Sealer, sealer_of


class Keyed(MemoryStorage):
    sealer: Sealer


def test_sealer_is_found_behind_delegating_storages() -> None:
    assert sealer_of(MemoryStorage()) is None
    assert sealer_of(DelegatingStorage(MemoryStorage())) is None
    keyed = Keyed()
    keyed.sealer = object()  # type: ignore[assignment]
    assert sealer_of(DelegatingStorage(keyed)) is keyed.sealer
