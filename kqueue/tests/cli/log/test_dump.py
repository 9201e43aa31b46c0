"""S7.2: `kqueue log dump` prints what Kafka 4.3's own tool printed, line for line, for all that Kafka 2.8 and 4.3 wrote.

In data/golden/dump: what the tool printed for single files (on both streams), and for all files of the two data folders
(`<version>-all-<run>.out` and `.err`).
"""

from __future__ import annotations

import functools
import re
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.cli.log.dump import MAX_BYTES, MAX_MESSAGE_SIZE
from kqueue.files.dump import options as dump_options
from kqueue.tests.golden import FOLDER, data_folder

ZERO = "00000000000000000000"
SINGLE = {  # the name of the golden dump -> version, file, options
    **{f"2.8-{topic}": ("2.8", f"{topic}-0/{ZERO}.log", "--print-data-log") for topic in ("v0-gzip", "v0-none", "v1-lz4", "v1-none")},
    **{
        f"4.3-{topic}-{ZERO}.log": ("4.3", f"{topic}-0/{ZERO}.log", "--print-data-log")
        for topic in ("v2-gzip", "v2-logappend", "v2-none", "v2-zstd")
    },
    "4.3-__consumer_offsets-1": ("4.3", f"__consumer_offsets-1/{ZERO}.log", "--offsets-decoder"),
    "4.3-__transaction_state-0": ("4.3", f"__transaction_state-0/{ZERO}.log", "--transaction-log-decoder"),
    "4.3-compacted-00000000000000001200.log": ("4.3", "compacted-0/00000000000000001200.log", "--print-data-log"),
    "4.3-txn-00000000000000000025.log": ("4.3", "txn-0/00000000000000000025.log", "--print-data-log"),
    **{
        f"4.3-txn-0-{name}": ("4.3", f"txn-0/{name}", "--print-data-log")
        for name in (
            "00000000000000000025.index",
            "00000000000000000025.timeindex",
            "00000000000000000025.txnindex",
            "00000000000000000267.snapshot",
        )
    },
    "4.3-v2-none-index-sanity-check": ("4.3", f"v2-none-0/{ZERO}.index", "--index-sanity-check"),
    "4.3-v2-none-verify-index-only": ("4.3", f"v2-none-0/{ZERO}.index", "--verify-index-only"),
}
RUNS = {
    "plain": [],
    "data": ["--print-data-log"],
    "deep": ["--deep-iteration"],
    "skip": ["--print-data-log", "--skip-record-metadata"],
    "verify": ["--verify-index-only"],
    "sanity": ["--index-sanity-check"],
    "maxbytes": ["--print-data-log", "--max-bytes", "3000"],
    "offsets": ["--offsets-decoder"],
    "txns": ["--transaction-log-decoder"],
}
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@functools.cache
def told() -> dict[str, bytes]:
    """Name -> what Kafka's tool printed."""
    with tarfile.open(FOLDER / "dump" / "dumps.tar.xz") as tar:
        files = [(member.name, tar.extractfile(member)) for member in tar]
        return {name.removeprefix("./"): file.read() for name, file in files if file is not None}


def dump(*args: object) -> Result:
    return CliRunner().invoke(kqueue, ["log", "dump", *map(str, args)])


def blocks(text: str) -> list[str]:
    """The lists at the end, in an order of their own: Kafka's tool has none among files."""
    return sorted(re.findall(r"^(?:Mismatches|Found|The following|Non-consecutive).*\n(?:(?:  |Indexed offset).*\n)*", text, re.MULTILINE))


def test_all_golden_dumps_are_compared() -> None:
    assert {name.removesuffix(".txt") for name in told() if name.endswith(".txt")} == set(SINGLE)
    assert len(SINGLE) == 18


@pytest.mark.parametrize("name", SINGLE)
def test_a_file_line_for_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version, file, option = SINGLE[name]
    monkeypatch.chdir(data_folder(version))
    result = dump("--files", file, option)
    shown = result.stdout_bytes + result.stderr.replace(f"{data_folder(version)}/", "").encode()
    assert shown.splitlines() == told()[f"{name}.txt"].splitlines()
    assert result.exit_code == 0


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("version", ["2.8", "4.3"])
def test_all_files_of_a_data_folder_byte_for_byte(version: str, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_folder(version)
    monkeypatch.chdir(data)
    files = re.findall(r"^Dumping (.*)$", told()[f"{version}-all-{run}.out"].decode(), re.MULTILINE)
    pattern = {"offsets": "__consumer_offsets-*/*.log", "txns": "__transaction_state-*/*.log"}.get(run, "*/*")
    assert set(files) == {str(path.relative_to(data)) for path in data.glob(pattern) if path.suffix in SUFFIXES}
    result = dump("--files", ",".join(files), *RUNS[run])
    assert result.stdout_bytes == told()[f"{version}-all-{run}.out"]
    assert blocks(result.stderr.replace(f"{data}/", "")) == blocks(told()[f"{version}-all-{run}.err"].decode())
    assert result.exit_code == 0


def test_a_folder_stands_for_its_files() -> None:
    folder = data_folder("4.3") / "txn-0"
    result = dump(folder)
    titles = [line.removeprefix(f"Dumping {folder}/") for line in result.stdout.splitlines() if line.startswith("Dumping")]
    assert titles == sorted(path.name for path in folder.iterdir() if path.suffix in SUFFIXES)
    assert {Path(name).suffix for name in titles} == set(SUFFIXES)
    assert result.exit_code == 0


def test_defaults_are_those_of_kafka() -> None:
    assert (MAX_BYTES, MAX_MESSAGE_SIZE) == (dump_options.MAX_BYTES, dump_options.MAX_MESSAGE_SIZE) == (2147483647, 5242880)
