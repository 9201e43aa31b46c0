from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.demo import tiered_demo
from kqueue.demo.readings import Readings


def run(*args: str) -> Result:
    return CliRunner().invoke(kqueue, ["demo", "tiered", *args])


# kafka-python leaves the sockets open with which it can't reach the killed broker.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_short_one_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiered_demo, "find_spec", lambda name: None)  # Spark is tested apart, and takes a minute
    folder = tmp_path / "data"
    result = run("--size", "20", "--local", "2", "--folder", str(folder))
    assert result.exit_code == 0, result.output
    assert "readings came back, and" in result.output
    assert f"The data is in {folder}" in result.output
    again = run("--folder", str(folder))
    assert (again.exit_code, again.output) == (1, f"Error: the folder {folder} is not empty; name a new one\n")


def test_a_difference_is_one_sentence_and_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    result = tiered_demo.TieredResult(Readings(0, 3))
    monkeypatch.setattr(tiered_demo, "run", lambda *args, **kwargs: result)
    shown = run()
    assert shown.exit_code == 1
    assert shown.output.splitlines()[-1].startswith(
        "Error: this is not what should come out: nothing was read from the start; nothing was read after the recovery"
    )
