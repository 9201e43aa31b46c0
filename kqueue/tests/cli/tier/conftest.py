"""A tier in a folder, and the commands for tiers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.tests.tier.tiers import copied_log, put_records
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.folder import FolderTierStore

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    return lambda *args: CliRunner().invoke(kqueue, ["tier", *map(str, args)])


@pytest.fixture
def store(tmp_path: Path) -> TierStore:
    (tmp_path / "tier").mkdir()
    store = FolderTierStore.of_path(str(tmp_path / "tier"))
    put_records(store)
    copied_log(store, 20)
    return store
