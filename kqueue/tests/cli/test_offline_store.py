from __future__ import annotations

from pathlib import Path

import click
import pytest

from kqueue.cli.offline_store import offline_store


def test_folder_has_one_user_at_a_time(tmp_path: Path) -> None:
    with offline_store(tmp_path / "new") as store:
        store.commit({}, {"/a": b"1"}, [])
        with pytest.raises(click.ClickException, match="or stop it"), offline_store(tmp_path / "new"):
            pass
    with offline_store(tmp_path / "new") as store:
        assert store.read("/")["/a"].value == b"1"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(click.ClickException, match="file"), offline_store(tmp_path / "file"):
        pass


def test_a_store_that_is_damaged_is_an_error_and_the_folder_is_free_again(tmp_path: Path) -> None:
    with offline_store(tmp_path) as store:
        path = Path(store.path)  # type: ignore[attr-defined]
    path.write_bytes(b"damaged" * 1000)
    for _ in range(2):
        with pytest.raises(click.ClickException, match="metadata"), offline_store(tmp_path):
            pass
