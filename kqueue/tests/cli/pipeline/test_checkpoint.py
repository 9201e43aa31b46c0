from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from kqueue.cli.app import kqueue
from kqueue.tests.spark.source.test_checkpoints import CONF, NEXT, checkpoint


def test_a_checkpoint_is_changed_once(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "checkpoint", [f"v1\n{CONF}\n{NEXT}"], 1)

    def run(what: Path) -> tuple[int, str]:
        done = CliRunner().invoke(kqueue, ["pipeline", "checkpoint", str(what), "--to", "kafka"])
        return done.exit_code, done.output

    assert run(folder) == (0, f"Changed 1 file of {folder}: Spark's own source reads it now.\n")
    assert run(folder) == (0, f"Nothing to change in {folder}: no offsets there have ids of topics.\n")
    status, said = run(tmp_path)
    assert status == 1
    assert said == f"Error: {tmp_path} is no checkpoint of a stream that has begun: it has no offsets\n"
    assert run(tmp_path / "none")[0] == 2
