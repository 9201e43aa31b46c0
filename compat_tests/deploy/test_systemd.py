"""The unit of `kqueue service`: by systemd's own checks, and by the system calls of a broker."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.deploy.command_line import CHECKOUT
from kqueue.cli.service.layout import UNIT, service_files
from kqueue.testing.process_environment import process_environment
from kqueue.tests.waits import eventually

EXPOSURE_MAX = 1.5
AS_ROOT_ALONE = {"fchown"}
"""SQLite gives its files the owner of the database where root runs it."""
SERVES = "serves PLAINTEXT://"


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    executable = tmp_path / "kqueue"
    executable.symlink_to("/bin/true")
    (text,) = (file.text for file in service_files(str(executable)) if file.name == UNIT)
    path = tmp_path / UNIT
    path.write_text(text)
    return path


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"}
    )


def test_the_exposure_is_as_low_as_the_docs_say(unit: Path) -> None:
    done = analyze("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX * 10:.0f}", unit)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze has no --offline")
    assert done.returncode == 0, done.stdout
    rated = re.search(r"Overall exposure level for kqueue.service: ([\d.]+)", done.stdout)
    assert rated is not None, done.stdout
    assert float(rated[1]) <= EXPOSURE_MAX
    if rated[1] != "1.2":
        pytest.skip(f"this version of systemd rates {rated[1]}, another one than that of the docs")
    assert f"rates its exposure with {rated[1]} of 10" in (CHECKOUT / "docs/systemd.md").read_text().replace("\n", " ")


def test_systemd_knows_each_line(unit: Path) -> None:
    done = analyze("verify", "--man=no", unit)
    about_it = [line for line in done.stderr.splitlines() if UNIT in line or "kqueue" in line]
    assert about_it == []


def expanded(names: list[str]) -> set[str]:
    """Return the system calls of these groups, and of groups in them."""
    calls: set[str] = set()
    for name in names:
        listed = {line.strip() for line in analyze("syscall-filter", name).stdout.splitlines()[1:]}
        listed = {line for line in listed if line and not line.startswith("#")}
        calls |= {line for line in listed if not line.startswith("@")}
        calls |= expanded([line for line in listed if line.startswith("@")])
    return calls


def test_a_broker_makes_no_system_call_that_the_unit_refuses(unit: Path, tmp_path: Path) -> None:
    """It starts, takes a topic, compacts nothing, and stops; the unit refuses others by EPERM."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace")
    filters = re.findall(r"^SystemCallFilter=(~?)(.*)$", unit.read_text(), re.MULTILINE)
    allowed: set[str] = set()
    for sign, names in filters:
        allowed = allowed - expanded(names.split()) if sign else allowed | expanded(names.split())
    trace, log = tmp_path / "trace", tmp_path / "log"
    command = [sys.executable, "-m", "kqueue.cli", "serve", "--port=0", "--topic=orders:3"]
    settings = [f"--set=log.dirs={tmp_path / 'data'}", "--set=kqueue.metrics.listener=127.0.0.1:0"]
    with (
        log.open("w") as output,
        subprocess.Popen(
            ["strace", "-f", "-qq", "-o", trace, *command, *settings],
            cwd=CHECKOUT,
            stderr=output,
            env=process_environment(),
        ) as process,
    ):
        try:
            eventually(lambda: SERVES in log.read_text() or process.poll() is not None, log)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            if not children:
                pytest.skip("this machine lets no process be traced")
            os.kill(int(children[0]), signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()
        finally:
            process.kill()
    made = set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(errors="replace"), re.MULTILINE))
    assert len(made) > 20
    assert made - allowed <= AS_ROOT_ALONE
