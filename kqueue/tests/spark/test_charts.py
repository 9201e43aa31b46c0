from __future__ import annotations

import struct
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from kqueue.base.errors import ExtraNeeded
from kqueue.spark.charts import COLOURS, bars, chart, count_axis

drawing = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib comes with kqueue[spark]")


def size_px(file: Path) -> tuple[int, ...]:
    head = file.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return struct.unpack(">II", head[16:])


@drawing
def test_a_picture_has_the_size_that_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "made.png"
    with chart(file, "What $costs_what", width_px=800, height_px=300) as figure:
        left, right = figure.subplots(1, 2)
        left.plot([0, 2000], [1, 2], color=COLOURS["blue"])
        count_axis(left, "x")
        bars(right, {"one": 1, "many": 1234})
    assert size_px(file) == (800, 300)
    assert "1,234" in [text.get_text() for text in right.texts]
    assert list(tmp_path.iterdir()) == [file]


@drawing
def test_a_drawing_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "made.png"
    file.write_bytes(b"before")
    with pytest.raises(RuntimeError), chart(file, "Title"):
        raise RuntimeError
    assert file.read_bytes() == b"before"
    with pytest.raises(OSError, match="nowhere"), chart(tmp_path / "nowhere" / "made.png", "Title"):
        pass
    assert list(tmp_path.iterdir()) == [file]


@drawing
def test_the_style_ends_with_the_picture(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"axes.facecolor": "red"}), chart(tmp_path / "made.png", "Title") as figure:
        assert figure.subplots().get_facecolor() == (1, 1, 1, 1)
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ExtraNeeded, match=r"pip install '\.\[spark\]'"), chart(tmp_path / "made.png", "Title"):
        pass
