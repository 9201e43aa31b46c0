from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kqueue.spark.errors import OptionError
from kqueue.spark.source import checkpoints as module
from kqueue.spark.source.checkpoints import to_kafka

CONF = '{"batchWatermarkMs":0,"conf":{"@ids":"of Spark"}}'
IDS = '"@ids": {"orders": "I-0-k6jnSCOUjcDiP0eV6A"}'
FIRST = f'{{"orders": {{"0": 28, "1": 43}}, {IDS}, "@begin": {{"orders": {{"0": 3, "1": 0}}, {IDS}}}}}'
NEXT = f'{{"orders": {{"0": 30, "1": 43}}, {IDS}}}'


def checkpoint(folder: Path, offsets: list[str], commits: int) -> Path:
    for name, files in (("offsets", offsets), ("commits", ["v1\n{}"] * commits)):
        (folder / name).mkdir(parents=True)
        for number, text in enumerate(files):
            (folder / name / str(number)).write_text(text)
            (folder / name / f".{number}.crc").write_text("crc")
    return folder


def test_offsets_are_those_of_sparks_own_source(tmp_path: Path) -> None:
    """Other sources of the query stay as they are, and so do Spark's own words and its commits."""
    files = [
        f"v1\n{CONF}\n{FIRST}\n-",
        f'v1\n{CONF}\n{NEXT}\n{{"logOffset": 7}}',
        f'v1\n{CONF}\n{{"orders":{{"0":31}}}}\n8',
    ]
    folder = checkpoint(tmp_path / "checkpoint", files, 2)
    assert to_kafka(folder) == 2
    assert [(folder / "offsets" / str(number)).read_text() for number in range(3)] == [
        f'v1\n{CONF}\n{{"orders":{{"0":28,"1":43}}}}\n-',
        f'v1\n{CONF}\n{{"orders":{{"0":30,"1":43}}}}\n{{"logOffset": 7}}',
        files[2],
    ]
    assert sorted(one.name for one in (folder / "offsets").iterdir()) == [".2.crc", "0", "1", "2"]
    assert len(list((folder / "commits").iterdir())) == 4
    assert to_kafka(folder) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"v1\n{CONF}\n{FIRST}", "the first batch of .* is not done"),
        (f"v2\n{CONF}\n{FIRST}", "begins with 'v2': expected offsets of the version v1"),
        ("", "begins with ''"),
        (f'v1\n{CONF}\n{{"orders": 7, {IDS}}}', 'expected {"partition":offset} for topic'),
        (f"v1\n{CONF}\n{{{IDS}", "is no JSON"),
    ],
)
def test_checkpoint_that_can_not_be_converted_is_unchanged(tmp_path: Path, text: str, words: str) -> None:
    folder = checkpoint(tmp_path / "checkpoint", [f"v1\n{CONF}\n{NEXT}", text], 1)
    with pytest.raises(OptionError, match=words):
        to_kafka(folder)
    assert (folder / "offsets" / "0").read_text() == f"v1\n{CONF}\n{NEXT}"
    assert (folder / "offsets" / "1").read_text() == text


def test_files_that_are_no_offsets_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint(tmp_path / "checkpoint", [f"v1\n{CONF}\n{NEXT}"], 0)
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 20)
    with pytest.raises(OptionError, match="no offsets of a batch"):
        to_kafka(folder)
    (folder / "offsets" / "0").write_bytes(b"v1\n\xff")
    with pytest.raises(OptionError, match="expected offsets of the version v1"):
        to_kafka(folder)


@pytest.mark.parametrize("after", range(7))
def test_a_call_that_was_killed_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Each file is the old or the new one, and no checksum beside it is that of another."""
    folder = checkpoint(tmp_path / "checkpoint", [f"v1\n{CONF}\n{NEXT}"] * 3, 3)
    steps = iter(range(after))

    def until_killed(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*words: object, **named: object) -> Any:
            if next(steps, None) is None:
                raise KeyboardInterrupt
            return call(*words, **named)

        return step

    with monkeypatch.context() as patched:
        for name in ("unlink", "replace"):
            patched.setattr(Path, name, until_killed(getattr(Path, name)))
        with contextlib.suppress(KeyboardInterrupt):
            to_kafka(folder)
    for number in range(3):
        is_new = "@ids" not in (folder / "offsets" / str(number)).read_text().splitlines()[2]
        assert is_new == (number < after // 2)
        assert not (is_new and (folder / "offsets" / f".{number}.crc").exists())
    to_kafka(folder)
    assert to_kafka(folder) == 0
    assert sorted(one.name for one in (folder / "offsets").iterdir()) == ["0", "1", "2"]
