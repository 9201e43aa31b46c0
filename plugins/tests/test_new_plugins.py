"""What a newcomer does: kqueue installed in a fresh environment, a plugin of each kind begun,
installed, tested and listed there.

Needs a package index, mypy and ruff; `tox -e plugins` has them. About a minute.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = ("codec", "partitioner", "assignor", "cleanup-policy", "storage", "metadata-store", "tier-store", "command")
PREFIXES = {"cleanup-policy": "cleanup", "metadata-store": "metadata", "tier-store": "tier"}
BY_DOCUMENT = "by-customer"  # the name in docs/plugins.md
STRICT = "E,F,W,I,B,UP,SIM,RUF,PT,PIE,C4,ISC,PERF,PTH"
pytestmark = pytest.mark.timeout(300)


class Environment:
    """A virtual environment, and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "venv" / "bin"
        self.work = folder / "work"
        self.work.mkdir()

    def run(self, line: str) -> str:
        """What the command prints. Raises AssertionError: it failed, and all that it said."""
        ours = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KQUEUE_", "PYTHON", "PYTEST", "VIRTUAL_ENV"))
        }
        path = os.pathsep.join((str(self.bin), ours["PATH"]))
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=self.work,
            env={**ours, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def listed(self) -> dict[tuple[str, str], dict[str, object]]:
        plugins = json.loads(self.run("kqueue plugins --json --bootstrap-server 127.0.0.1:9"))["plugins"]
        return {(row["kind"], row["name"]): row for row in plugins}


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the project's own wheel in it, and with a plugin of each kind, called
    ``mine``, installed beside it.
    """
    folder = tmp_path_factory.mktemp("fresh")
    source = folder / "source"  # a copy, so that building leaves nothing in the project
    source.mkdir()
    shutil.copytree(ROOT / "kqueue", source / "kqueue", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "build_backend.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=120)
    environment = Environment(folder)
    environment.run(f"pip wheel --quiet --no-deps --wheel-dir '{folder}/wheels' '{source}'")
    (wheel,) = (folder / "wheels").glob("kqueue-*.whl")
    environment.run(f"pip install --quiet '{wheel}[cli]' 'setuptools>=77'")
    for kind in KINDS:
        environment.run(f"kqueue plugins new {kind} mine --folder {kind}")
    # without an environment for each build, which takes most of the time; the document's own lines,
    # below, are as they stand
    environment.run("pip install --quiet --no-build-isolation " + " ".join(f"-e './{kind}[test]'" for kind in KINDS))
    return environment


@pytest.mark.parametrize("kind", KINDS)
def test_new_plugin_passes_its_test_and_is_listed(fresh: Environment, kind: str) -> None:
    assert re.search(r"\b[2-9] passed", fresh.run(f"cd {kind} && pytest"))
    row = fresh.listed()[kind, "mine"]
    distribution = f"kqueue-{PREFIXES.get(kind, kind)}-mine"
    assert (row["origin"], row["state"]) == (f"{distribution} 0.1.0", "waits" if kind == "codec" else "ready")


def test_new_plugin_is_clean(fresh: Environment) -> None:
    fresh.run(f"{sys.executable} -m ruff check --extend-select {STRICT} {' '.join(KINDS)}")
    files = " ".join(
        str(path.relative_to(fresh.work)) for kind in KINDS for path in sorted((fresh.work / kind).rglob("*.py"))
    )
    config, python = f"{KINDS[0]}/pyproject.toml", fresh.bin / "python"
    fresh.run(f"{sys.executable} -m mypy --python-executable {python} --config-file {config} {files}")


def test_the_documents_way_from_nothing_to_a_plugin(fresh: Environment) -> None:
    text = (ROOT / "docs" / "plugins.md").read_text()
    (block,) = (
        block for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if "pip install" in block
    )
    for line in block.splitlines():
        told = fresh.run(line)
    assert BY_DOCUMENT in told
    assert fresh.listed()["partitioner", BY_DOCUMENT]["state"] == "ready"
