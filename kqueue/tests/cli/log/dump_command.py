"""The output of Kafka's own tool, and a way to run `kqueue log dump`."""

from __future__ import annotations

import functools
import tarfile

from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.tests.golden import FOLDER

ZERO = "00000000000000000000"
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@functools.cache
def told() -> dict[str, bytes]:
    """The files in data/golden/dump/dumps.tar.xz, by name.

    What DumpLogSegments of Kafka 4.3 printed for single files (``<version>-<file>.txt``, both
    streams), for all files of a golden data folder (``<version>-all-<run>.out`` and ``.err``), for
    files that kqueue made (``own-<name>.log`` and ``.out``), and for damaged files
    (``damaged-<name>.out`` and ``.err``).
    """
    with tarfile.open(FOLDER / "dump" / "dumps.tar.xz") as tar:
        files = [(member.name, tar.extractfile(member)) for member in tar]
        return {name.removeprefix("./"): file.read() for name, file in files if file is not None}


def dump(*args: object) -> Result:
    """`kqueue log dump`, in this process."""
    return CliRunner().invoke(kqueue, ["log", "dump", *map(str, args)])
