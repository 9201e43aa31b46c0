"""S7.2: which files are dumped, how they are named, and how a run ends."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from click.testing import CliRunner

from kqueue.cli.app import kqueue
from kqueue.cli.log.dump import MAX_BYTES, MAX_MESSAGE_SIZE
from kqueue.log_tools.dump import DumpFile, DumpOptions, Problems, dump_file
from kqueue.log_tools.dump import options as dump_options
from kqueue.tests.cli.log.dump_command import SUFFIXES, ZERO, dump
from kqueue.tests.golden import data_folder
from kqueue.tests.golden import expected as expected_of
from kqueue.tests.processes import started
from kqueue.tests.tables import for_each


def test_folder_means_its_files() -> None:
    folder = data_folder("4.3") / "txn-0"
    result = dump(folder)
    titles = [
        line.removeprefix(f"Dumping {folder}/") for line in result.stdout.splitlines() if line.startswith("Dumping")
    ]
    assert titles == sorted(path.name for path in folder.iterdir() if path.suffix in SUFFIXES)
    assert {Path(name).suffix for name in titles} == set(SUFFIXES)
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("args", "status", "sentence"),
    [
        (["nowhere"], 1, "Error: there is no file or folder nowhere\n"),
        (["--files", "here/notes.txt,nowhere.log"], 1, "Error: there is no file or folder nowhere.log\n"),
        (
            ["here"],
            1,
            "Error: here holds no log, index or snapshot files; name a partition's folder, such as orders-0\n",
        ),
        (["here/notes.txt"], 1, "Ignoring unknown file here/notes.txt\n"),
        (["here/plain"], 1, "Ignoring unknown file here/plain\n"),
        (
            ["here/x.log"],
            1,
            "here/x.log: expected a name that begins with an offset, such as 00000000000000000000.log\n",
        ),
        (
            ["here/x.checkpoint"],
            1,
            "here/x.checkpoint: expected a name such as 00000000000000000000-0000000000.checkpoint\n",
        ),
        ([], 2, "Error: name a file or a folder: kqueue log dump orders-0\n"),
        (["--files", ","], 2, "Error: name a file or a folder: kqueue log dump orders-0\n"),
        (["here", "--offsets-decoder", "--transaction-log-decoder"], 2, "Error: choose one of --offsets-decoder and"),
        (["here", "--value-decoder", "strnig"], 2, "Error: there is no decoder 'strnig'; did you mean 'string'?"),
        (
            ["here", "--cluster-metadata-decoder"],
            2,
            "Error: --cluster-metadata-decoder is not supported: kqueue cannot decode the records",
        ),
        (["here", "--remote-log-metadata-decoder"], 2, "Error: --remote-log-metadata-decoder is not supported"),
        (["here", "--share-group-state-decoder"], 2, "Error: --share-group-state-decoder is not supported"),
        (["here", "--format", "new"], 2, "Error: Invalid value for '--format'"),
    ],
)
def test_wrong_names_are_reported_in_one_sentence(
    args: list[str], status: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    for name in ("notes.txt", "plain", "y.log.deleted"):
        (tmp_path / "here" / name).touch()
    for name in ("x.log", "x.checkpoint"):
        (tmp_path / "there").mkdir(exist_ok=True)
        (tmp_path / "there" / name).touch()
    monkeypatch.chdir(tmp_path)
    result = dump(*[arg.replace("here/x", "there/x") for arg in args])
    assert sentence.replace("here/x", "there/x") in result.stderr
    assert (result.stderr.count("\n"), result.exit_code) == (1 if status == 1 else 4, status)


def test_metadata_snapshots_are_dumped_as_logs() -> None:
    path = data_folder("4.3") / "bootstrap.checkpoint"
    result = dump(path, "--deep-iteration")
    assert result.stdout.startswith(f"Dumping {path}\nKRaft bootstrap snapshot\nbaseOffset: 0 ")
    assert result.exit_code == 0


@for_each(
    "decoder, shown",
    [("hex", "payload: 76616c7565"), ("builtins:len", "payload: 57\n"), ("string", "payload: value 0 of v2-none")],
)
def test_decoders_of_values(decoder: str, shown: str) -> None:
    path = data_folder("4.3") / "v2-none-0" / f"{ZERO}.log"
    result = dump(path, "--value-decoder", decoder)
    assert shown in result.stdout
    assert "key: key-000 " in result.stdout
    assert result.exit_code == 0


def test_undecodable_values_are_reported_and_the_rest_printed() -> None:
    path = data_folder("4.3") / "v2-none-0" / f"{ZERO}.log"
    result = dump(path, "--value-decoder", "long")
    assert result.stdout.count("\n| offset: ") == 300
    assert "payload" not in result.stdout
    assert result.stderr.splitlines()[0] == f"{path}, position 0: offset 0: a long has 8 bytes, found 57"
    assert result.exit_code == 1


def test_defaults_are_those_of_kafka() -> None:
    assert (
        (MAX_BYTES, MAX_MESSAGE_SIZE)
        == (dump_options.MAX_BYTES, dump_options.MAX_MESSAGE_SIZE)
        == (2147483647, 5242880)
    )


# --- the legacy lines


def test_documented_legacy_line(tmp_path: Path) -> None:
    """S7.2: offset, position, isvalid, payload size, magic, codec, crc; the bytes and the line are
    of a Kafka 0.8.
    """
    path = tmp_path / f"{ZERO}.log"
    path.write_bytes(bytes.fromhex("0000000000000000 00000016 e97538bc 00 00 ffffffff 00000008") + b"message1")
    shown = "isvalid: true payloadsize: 8 magic: 0 compresscodec: NoCompressionCodec crc: 3916773564"
    assert dump(path, "--format", "legacy").stdout == (
        f"Dumping {path}\nStarting offset: 0\noffset: 0 position: 0 NoTimestampType: -1 {shown}\n"
    )
    assert dump(path, "--format", "legacy", "--print-data-log").stdout.endswith(f"{shown} payload: message1\n")


LINES = re.compile(
    r"offset: (?P<offset>\d+) position: (?P<position>\d+) (?:CreateTime|LogAppendTime|NoTimestampType): "
    r"(?P<time>-?\d+) isvalid: true "
    r"(?:payloadsize: (?P<payloadsize>-?\d+) magic: [01] compresscodec: (?P<old_codec>\w+) crc: \d+(?: keysize: "
    r"(?P<old_keysize>\d+))?"
    r"|keysize: (?P<keysize>-?\d+) valuesize: (?P<valuesize>-?\d+) magic: 2 compresscodec: (?P<codec>[A-Z0-9]+) "
    r"producerId: -?\d+"
    r" producerEpoch: -?\d+ sequence: -?\d+ isTransactional: (?:true|false) headerKeys: \[(?P<header_keys>[\w,]*)\]"
    r"(?P<marker> endTxnMarker: (?:COMMIT|ABORT) coordinatorEpoch: \d+)?)"
    r"(?: key: (?P<key>.*?))?(?: payload: (?P<payload>.*))?"
)
CODECS = {
    "none": ("NoCompressionCodec", "NONE"),
    "gzip": ("GZIPCompressionCodec", "GZIP"),
    "snappy": ("SnappyCompressionCodec", "SNAPPY"),
    "lz4": ("LZ4CompressionCodec", "LZ4"),
    "zstd": ("", "ZSTD"),
}


@for_each(
    "version, topic",
    [("2.8", f"v{magic}-{codec}") for magic in (0, 1) for codec in ("none", "gzip", "snappy", "lz4")]
    + [("4.3", f"v2-{codec}") for codec in CODECS]
    + [("4.3", "v2-logappend"), ("4.3", "txn"), ("4.3", "compacted")],
)
def test_legacy_lines_match_the_messages_read_by_a_client(version: str, topic: str) -> None:
    """S7.2: for each message offset, position, time, validity, sizes, magic, codec, key and
    payload.
    """
    result = dump(data_folder(version) / f"{topic}-0", "--format", "legacy", "--print-data-log")
    matches = [LINES.fullmatch(line) for line in result.stdout.splitlines() if "isvalid: " in line]
    records = [match for match in matches if match is not None and not match["marker"]]
    assert None not in matches
    expected = expected_of(version)[topic].of_partition(0)
    assert len(expected) > 20
    for match, told in zip(records, expected, strict=True):
        assert match is not None
        assert int(match["offset"]) == told.offset
        assert int(match["time"]) == (told.timestamp if told.timestamp_type else -1)
        assert (match["key"], match["payload"]) == tuple(
            None if data is None else data.decode() for data in (told.key, told.value)
        )
        sizes = [-1 if data is None else len(data) for data in (told.key, told.value)]
        if topic.startswith(("v0", "v1")):
            assert [int(match["old_keysize"] or -1), int(match["payloadsize"])] == sizes
            assert match["old_codec"] == CODECS[topic[3:]][0]
        else:
            assert [int(match["keysize"]), int(match["valuesize"])] == sizes
            assert (
                match["codec"] == CODECS.get(topic[3:], ("", "LZ4" if topic == "v2-logappend" else match["codec"]))[1]
            )
            assert match["header_keys"] == ",".join(name for name, _ in told.headers)


def test_max_bytes_is_unlimited_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log may exceed 2 GiB; here with a limit of 2000 bytes."""
    monkeypatch.setattr(dump_options, "MAX_BYTES", 2000)
    path = data_folder("4.3") / "v2-none-0" / f"{ZERO}.log"
    problems = Problems(lambda sentence: None)
    assert len(list(dump_file(DumpFile(str(path)), DumpOptions(max_bytes=2000), problems))) == 2 + 8
    assert not problems.wrong
    assert len(list(dump_file(DumpFile(str(path)), DumpOptions(max_bytes=1999), problems))) == 2
    assert not problems.wrong


# --- how a run ends


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "kqueue.cli", "log", "dump", *map(str, args)]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A log of 24 MB."""
    path = tmp_path / f"{ZERO}.log"
    data = (data_folder("4.3") / "v2-none-0" / f"{ZERO}.log").read_bytes()
    path.write_bytes(data * 1000)
    return path


@pytest.mark.long
def test_large_file_needs_little_memory(large: Path) -> None:
    problems = Problems(lambda sentence: None)
    tracemalloc.start()
    try:
        count = sum(1 for _ in dump_file(DumpFile(str(large)), DumpOptions(), problems))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 2 + 8 * 1000
    assert peak < 6_000_000


@pytest.mark.long
def test_a_closed_pipe_ends_it_quietly(large: Path) -> None:
    with started(command(large, "--print-data-log"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == f"Dumping {large}\n".encode()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_a_whole_line(large: Path, number: signal.Signals) -> None:
    with started(command(large, "--print-data-log"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 130
    assert rest.endswith(b"\n")
    assert rest.count(b"\n") < 300_000


# --- help


@pytest.mark.parametrize("args", [["log", "--help"], ["log", "dump", "--help"]])
def test_every_command_in_the_help_runs(args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(data_folder("4.3") / "v2-none-0", tmp_path / "orders-0")
    shutil.copytree(data_folder("4.3") / "v2-none-0", tmp_path / "kqueue-data" / "orders-0")
    shutil.copytree(data_folder("4.3") / "__consumer_offsets-1", tmp_path / "__consumer_offsets-0")
    monkeypatch.chdir(tmp_path)
    text = CliRunner().invoke(kqueue, args).output
    lines = [
        line.split()[1:]
        for line in text.splitlines()
        if line.startswith("  ") and line.split()[:3] == ["kqueue", "log", "dump"]
    ]
    assert lines
    for line in lines:
        result = CliRunner().invoke(kqueue, line)
        assert (result.exit_code, result.stderr) == (0, ""), line
        assert result.stdout.startswith("Dumping ")
