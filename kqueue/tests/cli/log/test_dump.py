"""S7.2, S3.6: `kqueue log dump` prints the output of Kafka 4.3's tool, byte for byte.

The logs are those that Kafka 2.8 and 4.3 wrote.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from kqueue.cli.log.dump import _Printer
from kqueue.tests.cli.log.dump_command import SUFFIXES, ZERO, dump, told
from kqueue.tests.golden import data_folder

SINGLE = {  # the name of the golden dump -> version, file, options
    **{
        f"2.8-{topic}": ("2.8", f"{topic}-0/{ZERO}.log", "--print-data-log")
        for topic in ("v0-gzip", "v0-none", "v1-lz4", "v1-none")
    },
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


def blocks(text: str) -> list[str]:
    """Return the lists at the end without their order, which Kafka's tool does not define."""
    return sorted(
        re.findall(
            r"^(?:Mismatches|Found|The following|Non-consecutive).*\n(?:(?:  |Indexed offset).*\n)*", text, re.MULTILINE
        )
    )


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


OWN = {  # files made with BatchBuilder: name -> options
    "off": ["--offsets-decoder"],  # every kind of record in __consumer_offsets, in every version
    "trx": ["--transaction-log-decoder"],
    "mix": ["--print-data-log"],  # every codec, nulls, bytes that are no text, headers, wrapping sequences, markers
    "num": [
        "--key-decoder-class",
        "org.apache.kafka.tools.api.LongDecoder",
        "--value-decoder-class",
        "org.apache.kafka.tools.api.IntegerDecoder",
    ],
}


@pytest.mark.parametrize("name", OWN)
def test_files_of_kqueue_byte_for_byte(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"{name}-0" / f"{ZERO}.log"
    path.parent.mkdir()
    path.write_bytes(told()[f"own-{name}.log"])
    monkeypatch.chdir(tmp_path)
    result = dump("--files", f"{name}-0/{ZERO}.log", *OWN[name])
    assert result.stdout_bytes == told()[f"own-{name}.out"]
    assert (result.stderr, result.exit_code) == ("", 0)


@pytest.mark.parametrize(
    ("is_terminal", "shown"), [(True, r"key: a\n| offset: 9\x1b[31m"), (False, "key: a\n| offset: 9\x1b[31m")]
)
def test_a_record_is_one_line_on_a_terminal(is_terminal: bool, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    stdout = io.TextIOWrapper(written, "utf-8")
    monkeypatch.setattr(stdout, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stdout", stdout)
    printer = _Printer()
    printer.print(["key: a\n| offset: 9\x1b[31m"])
    printer.flush()
    assert written.getvalue().decode() == f"{shown}\n"
