"""S7.2: damage is printed as by Kafka's tool, reported in sentences, and ends with status 1."""

from __future__ import annotations

import shutil
from pathlib import Path
from struct import pack

import pytest

from kqueue.tests.cli.log.dump_command import ZERO, dump, told
from kqueue.tests.golden import data_folder


def put(path: Path, *changes: tuple[int, bytes]) -> None:
    data = bytearray(path.read_bytes())
    for position, new in changes:
        position %= len(data)
        data[position : position + len(new)] = new
    path.write_bytes(data)


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of golden folders with the damage on which Kafka's tool was run.

    The working folder.
    """
    for version, topic, name in (
        ("4.3", "txn", "idx"),
        ("4.3", "txn", "tim"),
        ("4.3", "v2-none", "crc"),
        ("2.8", "v1-none", "old"),
    ):
        shutil.copytree(data_folder(version) / f"{topic}-0", tmp_path / f"{name}-0")
    index = tmp_path / "idx-0" / "00000000000000000025.index"
    put(index, (0, pack(">i", 22)), (16, pack(">i", 70)))
    index.write_bytes(index.read_bytes() + bytes(40))  # as a broker allocates them
    times = tmp_path / "tim-0" / "00000000000000000025.timeindex"
    put(times, (0, pack(">q", 123)), (24, pack(">q", 5)), (44, pack(">i", 70)), (-4, pack(">i", 9999)))
    times.write_bytes(times.read_bytes() + bytes(36))
    for name, position, cut in (("crc", 3300, 10), ("old", 90, 3)):
        log = tmp_path / f"{name}-0" / f"{ZERO}.log"
        put(log, (position, bytes([log.read_bytes()[position] ^ 1])))
        log.write_bytes(log.read_bytes()[:-cut])
    (tmp_path / "emp-0").mkdir()
    for suffix in (".log", ".index", ".timeindex"):
        (tmp_path / "emp-0" / f"{ZERO}{suffix}").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


EMPTY = f"emp-0/{ZERO}.log,emp-0/{ZERO}.index,emp-0/{ZERO}.timeindex"


@pytest.mark.parametrize(
    ("name", "args", "status"),
    [
        ("idx", ["idx-0/00000000000000000025.index"], 1),
        ("tim", ["tim-0/00000000000000000025.timeindex"], 1),
        ("timv", ["tim-0/00000000000000000025.timeindex", "--verify-index-only"], 1),
        ("emp", [EMPTY], 0),
        ("emps", [EMPTY, "--index-sanity-check"], 0),
    ],
)
def test_indexes_are_checked_against_the_log(damaged: Path, name: str, args: list[str], status: int) -> None:
    result = dump("--files", *args)
    assert result.stdout_bytes == told()[f"damaged-{name}.out"]
    assert result.stderr.replace(f"{damaged}/", "").encode() == told()[f"damaged-{name}.err"]
    assert result.exit_code == status


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        (
            "crc",
            [
                "position 3180: expected checksum 0xd9b2b51e, found bytes that give 0x613cfcb1",
                "position 22840: expected a batch of 1720 bytes, found 1710 bytes up to the end of the file",
            ],
        ),
        (
            "old",
            [
                "position 0: expected checksum 0x16e9ab37, found bytes that give 0xda43aba9",
                "position 15865: expected a batch of 104 bytes, found 101 bytes up to the end of the file",
            ],
        ),
    ],
)
def test_damaged_log_is_printed_as_by_kafka_and_damage_is_reported(damaged: Path, name: str, wrong: list[str]) -> None:
    result = dump("--files", f"{name}-0/{ZERO}.log", "--print-data-log")
    assert result.stdout_bytes == told()[f"damaged-{name}.out"]
    assert (result.stderr.splitlines(), result.exit_code) == (
        [f"{name}-0/{ZERO}.log, {sentence}" for sentence in wrong],
        1,
    )


def test_unreadable_records_do_not_end_the_dump(damaged: Path) -> None:
    path = damaged / "crc-0" / f"{ZERO}.log"
    put(path, (3180 + 61, b"\xff\xff\xff\xff\x7f"))
    result = dump(path, "--deep-iteration")
    assert "position: 3180 " in result.stdout
    assert "\nbaseOffset: 80 lastOffset: 119 " in result.stdout
    assert f"{path}, position 3180: a varint of " in result.stderr
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("position", "new"), [(8, b"\xff\xff\xff\xff"), (8, b"\x7f\xff\xff\xff"), (16, b"\x07"), (8, bytes(4))]
)
def test_invalid_length_or_magic_ends_the_log(damaged: Path, position: int, new: bytes) -> None:
    path = damaged / "crc-0" / f"{ZERO}.log"
    path.write_bytes((data_folder("4.3") / "v2-none-0" / f"{ZERO}.log").read_bytes())
    put(path, (3180 + position, new))
    result = dump(path)
    assert f"\nFound {path.stat().st_size - 3180} invalid bytes at the end of {ZERO}.log\n" in result.stdout
    assert result.stderr.startswith(f"{path}, position 3180: expected a batch")
    assert result.exit_code == 1


def test_index_that_a_start_would_rebuild_fails_its_sanity_check(damaged: Path) -> None:
    index = damaged / "idx-0" / "00000000000000000025.index"
    index.write_bytes(index.read_bytes() + b"abc")
    times = damaged / "tim-0" / "00000000000000000025.timeindex"
    put(times, (-12, pack(">qi", 5, 9)))
    result = dump(index, times, "--index-sanity-check")
    assert result.stdout == f"Dumping {index}\nDumping {times}\n"
    assert result.stderr == (
        f"{index} failed its sanity check: expected a multiple of 8 bytes, found 131\n"
        f"{times} failed its sanity check: expected a last time of 123 or later, found 5\n"
    )
    assert result.exit_code == 1
    put(times, (-12, pack(">qi", 2**62, -9)))
    index.write_bytes(index.read_bytes()[:-3])
    put(index, (-8, b"\xff\xff\xff\xff"))
    result = dump(index, times, "--index-sanity-check")
    assert "expected a last offset of 25 or more, found" in result.stderr.splitlines()[0]
    assert "expected a last offset of 25 or more, found 16" in result.stderr.splitlines()[1]


def test_an_index_without_its_log_or_beyond_it(damaged: Path) -> None:
    index = damaged / "idx-0" / "00000000000000000025.index"
    put(index, (4, pack(">i", 2**31 - 1)))
    result = dump(index)
    assert (
        f"{index}: offset 47 at position 2147483647: no batch of at most 5242880 bytes begins there\n" in result.stderr
    )
    assert dump(index, "--max-message-size", 70).stderr.count("no batch of at most 70 bytes begins there") == 11
    index.with_suffix(".log").unlink()
    result = dump(index, index.with_suffix(".timeindex"))
    assert result.stdout.count("\noffset: ") + result.stdout.count("\ntimestamp: ") == 22
    assert result.stderr.count(f"entries can't be checked: there is no file {index.with_suffix('.log')}\n") == 2
    assert result.exit_code == 1


@pytest.mark.parametrize("name", ["00000000000000000025.txnindex", "00000000000000000267.snapshot"])
def test_transactions_and_snapshots_that_are_damaged(damaged: Path, name: str) -> None:
    path = damaged / "idx-0" / name
    put(path, (1, b"\x07"))
    result = dump(path)
    assert result.stdout == f"Dumping {path}\n"
    assert "version" in result.stderr
    assert result.exit_code == 1
    path.write_bytes(path.read_bytes()[:-1])
    assert dump(path).exit_code == 1


def test_a_snapshot_too_large_to_be_one_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / f"{ZERO}.snapshot"
    with path.open("wb") as file:
        file.truncate(2**40)
    result = dump(path)
    assert result.stderr == f"{path}: a producer snapshot has at most 536870912 bytes, found 1099511627776\n"
    assert result.exit_code == 1
