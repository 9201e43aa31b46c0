"""Copies of Kafka's folders for tests to damage, and functions that damage files."""

from __future__ import annotations

import shutil
from pathlib import Path

from kqueue.tests.golden import data_folder

NONE = "v2-none-0/00000000000000000000"
TXN = "txn-0/00000000000000000025"


def some_of(version: str, target: Path, *partitions: str) -> Path:
    """Copy a golden data folder with these partitions only; its checkpoints name others too."""
    source = data_folder(version)
    folder = target / f"kafka-{version}"
    folder.mkdir()
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, folder / path.name)
    for name in partitions:
        shutil.copytree(source / name, folder / name)
    return folder


def flip(path: Path, position: int, mask: int = 1) -> None:
    """Invert bits of one byte; a negative position counts from the end."""
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def put(path: Path, position: int, new: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[position : position + len(new)] = new
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    """Keep the first `size` bytes; a negative size removes bytes from the end."""
    path.write_bytes(path.read_bytes()[:size])


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
