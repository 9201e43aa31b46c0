"""Builds the programs of the other languages with what their packages need, and says why not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
BUILD_TIMEOUT_S = 200
REASON_CHARS_MAX = 300


class DownloadFailed(Exception):
    """The packages that a language's programs need can't be had; the message says why."""


class Toolchain(NamedTuple):
    """What a language needs: `command` on the path.

    `build(folder)` downloads, builds in `folder`, and returns how to start each program, by name.
    Raises: DownloadFailed; CalledProcessError: the programs do not build.
    """

    language: str
    command: str
    build: Callable[[Path], dict[str, list[str]]]

    def missing(self) -> str | None:
        """Return why nothing can be built here; None: the command is there."""
        return None if shutil.which(self.command) else f"there is no {self.language} (no {self.command} on the path)"


def build_go(folder: Path) -> dict[str, list[str]]:
    download("Go's modules", ["go", "mod", "download"], HERE / "go")
    command = ["go", "build", "-o", str(folder), "./franz", "./sarama"]
    subprocess.run(command, cwd=HERE / "go", timeout=BUILD_TIMEOUT_S, check=True)
    return {name: [str(folder / name)] for name in ("franz", "sarama")}


def build_js(folder: Path) -> dict[str, list[str]]:
    sources = shutil.copytree(HERE / "js", folder / "js", ignore=shutil.ignore_patterns("node_modules"))
    download("npm's packages", ["npm", "ci", "--no-audit", "--no-fund"], sources)
    return {"kafkajs": ["node", str(sources / "main.js")]}


def build_rust(folder: Path) -> dict[str, list[str]]:
    manifest = ["--locked", "--manifest-path", str(HERE / "rust" / "Cargo.toml")]
    download("Rust's crates", ["cargo", "fetch", *manifest], HERE / "rust")
    command = ["cargo", "build", "--quiet", "--offline", *manifest, "--target-dir", str(folder)]
    subprocess.run(command, timeout=BUILD_TIMEOUT_S, check=True)
    return {"rskafka": [str(folder / "debug" / "kqueue-rskafka")]}


def download(what: str, command: list[str], folder: Path) -> None:
    """Raises: DownloadFailed."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadFailed(f"{what} can't be downloaded: {error}") from error
    if done.returncode:
        said = " ".join(done.stderr.split())
        raise DownloadFailed(f"{what} can't be downloaded: {said[:REASON_CHARS_MAX]}")


GO = Toolchain("Go", "go", build_go)
JS = Toolchain("Node.js", "npm", build_js)
RUST = Toolchain("Rust", "cargo", build_rust)
PROGRAMS = {"kafkajs": JS, "rskafka": RUST, "franz": GO, "sarama": GO}
"""Which toolchain builds a program."""


class Programs:
    """The programs, built in `folder` in the background, each language by itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._threads = ThreadPoolExecutor()
        self._built = {one: self._threads.submit(self._build, one) for one in set(PROGRAMS.values())}

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def _build(self, toolchain: Toolchain) -> dict[str, list[str]] | str:
        """Return why they can't be had, if so."""
        if reason := toolchain.missing():
            return reason
        folder = self._folder / toolchain.command
        folder.mkdir()
        try:
            return toolchain.build(folder)
        except DownloadFailed as error:
            return str(error)

    def command(self, name: str) -> list[str] | str:
        """Return how to start a program, or why it can't be had here."""
        built = self._built[PROGRAMS[name]].result()
        return built if isinstance(built, str) else built[name]
