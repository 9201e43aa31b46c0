"""What the tests of `kqueue service` share."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.cli.service.layout import TARGETS, UNIT

EXECUTABLE = "/opt/kqueue/bin/kqueue"
SETTINGS = TARGETS["server.properties"]
UNIT_PATH = TARGETS[UNIT]


def run(*words: str) -> Result:
    """Run `kqueue service`."""
    return CliRunner().invoke(kqueue, ["service", *words])


def install(root: Path, executable: str = EXECUTABLE) -> str:
    """Install below a root; return what is printed."""
    done = run("install", "--root", str(root), "--executable", executable)
    assert done.exit_code == 0, done.output
    return done.output


def files_below(root: Path) -> set[str]:
    """Return the paths of all files below the root."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
