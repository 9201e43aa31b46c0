from __future__ import annotations

from importlib import metadata

import pytest
from click.testing import CliRunner

from kqueue import __version__
from kqueue.base.native import is_compiled
from kqueue.cli import version


def test_tells_all_versions() -> None:
    lines = CliRunner().invoke(version.version).output.splitlines()
    assert lines[0] == f"kqueue {__version__}, {'compiled' if is_compiled() else 'pure Python'}"
    assert f"click {metadata.version('click')}" in lines


def test_tells_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "COMPANIONS", ("no-such-package-of-ours",))
    assert CliRunner().invoke(version.version).output.splitlines()[-1] == "no-such-package-of-ours not installed"
