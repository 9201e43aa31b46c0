"""The source distribution and both wheels: contents, installation without a compiler, first use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kqueue.base.clock import monotonic_s
from release import checks, distributions

INSTALL_S_MAX = 20
MODULES_MAX = 120
PROGRAM = """
import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.records.builder import BatchBuilder

with kqueue.Broker() as broker:
    broker.create_topic("orders")
    partition = TopicPartition("orders", 0)
    with Client(broker.bootstrap) as client:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            builder = BatchBuilder(codec=codec)
            builder.append(0, b"key", b"two coffees" * 100)
            client.produce({partition: builder.build()})
        print("offset", client.fetch({partition: 0})[partition].high_watermark)
"""
CORE = {"click", "cramjam", "crc32c", "lz4", "markdown-it-py", "mdurl", "pygments", "python-snappy", "rich", "xxhash"}
CORE |= {"zstandard", "kqueue"}
"""All that `pip install kqueue` brings: docs/install.md says what each is for."""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The distributions by their kind. The compiled wheel is the one that tox has built."""
    paths = distributions.build(tmp_path_factory.mktemp("built"))
    compiled = [Path(path) for path in os.environ.get("TOX_PACKAGE", "").split(os.pathsep) if path]
    found = {distributions.kind_of(path): path for path in [*paths, *compiled]}
    return {kind: path for kind, path in found.items() if kind}


@pytest.fixture(params=["pure wheel", "compiled wheel"])
def wheel(request: pytest.FixtureRequest, built: dict[str, Path]) -> Path:
    if request.param not in built:
        pytest.skip("there is no compiled wheel: `tox -e package` builds one")
    return built[request.param]


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH without a compiler, and with nothing else."""
    folder = tmp_path / "empty"
    folder.mkdir()
    assert shutil.which("cc", path=str(folder)) is None
    return str(folder)


def test_each_distribution_has_what_is_published_and_no_more(built: dict[str, Path]) -> None:
    assert {"source distribution", "pure wheel"} <= built.keys()
    assert [problem for path in built.values() for problem in distributions.problems(path)] == []


def test_the_index_accepts_names_metadata_and_readme(built: dict[str, Path]) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, built.values()))


def test_a_wheel_installs_without_a_compiler_and_serves(wheel: Path, tmp_path: Path, bare_path: str) -> None:
    environment = {**os.environ, "PATH": bare_path, "UV_PYTHON_DOWNLOADS": "never"}
    environment.pop("PYTHONPATH", None)
    uv = shutil.which("uv") or pytest.fail("tox-uv brings uv")
    folder = tmp_path / "fresh"
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(uv, "venv", "-q", "--python", sys.executable, str(folder), env=environment)
    options = ["--only-binary", ":all:", "--python", python]
    began_s = monotonic_s()
    run(uv, "pip", "install", "-q", *options, str(wheel), env=environment)
    took_s = monotonic_s() - began_s
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes, installed in {took_s:.1f} s")
    if os.environ.get("CI") != "true":  # beside other parts of .ci/run no time is a promise
        assert took_s < INSTALL_S_MAX
    listed = run(uv, "pip", "list", "--python", python, "--format", "freeze", env=environment)
    assert {line.partition("==")[0].partition(" @")[0] for line in listed.splitlines()} == CORE
    there = {"env": environment, "cwd": tmp_path}
    assert run(python, "-W", "error", "-c", PROGRAM, **there).strip() == "offset 5"
    command = str(Path(python).with_name("kqueue"))
    assert "Run a broker that Kafka clients connect to." in run(command, "--help", **there)
    is_compiled = distributions.kind_of(wheel) == "compiled wheel"
    assert run(command, "version", **there).splitlines()[0].endswith("compiled" if is_compiled else "pure Python")
    # Without [cli] a client's command says what it lacks.
    lacking = subprocess.run([command, "topics", "list"], capture_output=True, text=True, **there)  # type: ignore[call-overload]
    assert lacking.returncode
    assert "needs packages that are not installed" in lacking.stderr
    modules = "import sys; before = len(sys.modules); import kqueue.cli.app; print(len(sys.modules) - before)"
    assert int(run(python, "-c", modules, **there)) < MODULES_MAX


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of this checkout whose changelog has a day of release. Its changes are in it too."""
    root = tmp_path / "clone"
    names = checks.git(distributions.ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    for name in names:
        if (distributions.ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(distributions.ROOT / name, root / name)
    log = root / "CHANGELOG.md"
    log.write_text(log.read_text().replace(", not released yet", ", 2027-01-02", 1))
    checks.git(root, "init", "-q", "-b", "main")
    for name, value in (("name", "tester"), ("email", "tester@localhost")):
        checks.git(root, "config", f"user.{name}", value)
    checks.git(root, "add", "-A")
    checks.git(root, "commit", "-q", "-m", "Release it")
    return root


def test_a_dry_run_of_the_release_builds_all_and_changes_nothing(clone: Path) -> None:
    printed = run(sys.executable, "-m", "release", "--dry-run", cwd=clone)
    assert "nothing was changed" in printed
    assert "python -m twine upload dist/kqueue-" in printed
    assert checks.git(clone, "status", "--porcelain") == ""
    assert not (clone / "dist").exists()
    assert checks.git(clone, "tag") == ""


def test_a_release_is_committed_tagged_and_not_published(clone: Path) -> None:
    version = checks.version_of(clone)
    printed = run(sys.executable, "-m", "release", cwd=clone)
    assert "is tagged, and not published" in printed
    assert checks.git(clone, "tag") == f"v{version}"
    assert checks.git(clone, "status", "--porcelain") == ""
    assert len(list((clone / "dist").iterdir())) == 2
    again = subprocess.run([sys.executable, "-m", "release"], cwd=clone, capture_output=True, text=True)
    assert again.returncode == 1
    assert "is there already" in again.stderr


def run(*command: str, **options: object) -> str:
    """Return what a command prints; show what it said if it fails."""
    process = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert process.returncode == 0, f"{command}: {process.stdout}{process.stderr}"
    text: str = process.stdout
    return text
