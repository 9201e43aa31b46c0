from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.demo import clients, delivery_demo
from kqueue.demo.delivery_tracker import DeliveryTracker


def run(*args: str) -> Result:
    return CliRunner().invoke(kqueue, ["demo", *args])


def test_a_short_one_from_the_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    result = run("--flights", "2000", "--folder", str(folder))
    assert result.exit_code == 0, result.output
    assert "All 2,000 flights came back, each once and in order." in result.output
    assert f"kqueue serve --set log.dirs={folder}" in result.output
    assert (folder / "flights-0").is_dir()
    again = run("--flights", "2000", "--folder", str(folder))
    assert again.exit_code == 1
    assert f"Error: the folder {folder} is not empty" in again.output


@pytest.mark.long
def test_keep_says_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run("--flights", "100").exit_code == 0
    assert list(tmp_path.iterdir()) == []
    result = run("--flights", "100", "--keep")
    (kept,) = tmp_path.iterdir()
    assert str(kept) in result.output


def test_a_difference_is_one_sentence_and_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        DeliveryTracker, "differences", lambda self: ["1 flights were not read", "2 records are no flights"]
    )
    result = run("--flights", "100")
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == (
        "Error: this is not what should come out: 1 flights were not read; 2 records are no flights."
    )


@pytest.mark.parametrize("error", [clients.DemoFailed("nothing came"), OSError(28, "No space left on device")])
def test_a_failure_is_one_sentence_and_exit_status_1(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(delivery_demo, "run", fail)
    result = run()
    assert result.exit_code == 1
    assert result.output == f"Error: the demo failed: {error}.\n"


def test_without_its_packages_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = run()
    assert result.exit_code == 1
    assert "pip install '.[demo]'" in result.output
