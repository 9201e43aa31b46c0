from __future__ import annotations

import math
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from kqueue.console.charts.line_chart import (
    BANDS_MAX,
    SERIES_MAX,
    ChartSeries,
    LineChart,
    TableRow,
    line_chart,
    sparkline,
)
from kqueue.console.charts.units import Unit
from kqueue.console.history.series import Point

START_MS = 1_800_000_000_000
STEP_MS = 10_000
HOSTILE = "</title><script>alert(1)</script>\x00\x1b[2J\u202e&\"'"


def points(*values: float | None) -> list[Point]:
    return [Point(START_MS + number * STEP_MS, value) for number, value in enumerate(values)]


def chart(*values: float | None, unit: Unit = Unit.RECORDS) -> LineChart:
    return line_chart("lag", "Lag", [ChartSeries("billing", points(*values))], unit)


def parsed(chart: LineChart) -> ElementTree.Element:
    assert chart.svg is not None
    return ElementTree.fromstring(chart.svg)


def paths(root: ElementTree.Element) -> list[str]:
    return [path.attrib["d"] for path in root.iter("path")]


def test_a_gap_in_the_values_is_a_gap_in_the_line() -> None:
    (path,) = paths(parsed(chart(1, 2, None, 3, 4)))
    assert path.count("M") == 2
    (path,) = paths(parsed(chart(None, 5, None)))
    assert path.endswith("h0")  # with round ends a line without length is a dot


def test_the_axis_begins_at_0_and_has_units() -> None:
    root = parsed(chart(1500, 3000))
    texts = [text.text for text in root.iter("text")]
    assert texts[:4] == ["0", "1k", "2k", "3k"]
    assert chart(1).unit == "records"


def test_screen_readers_get_a_title_and_a_description() -> None:
    root = parsed(chart(5, 7, 6))
    assert root.attrib["role"] == "img"
    title, description = (root.find(name) for name in ("title", "desc"))
    assert title is not None
    assert description is not None
    assert root.attrib["aria-labelledby"] == f"{title.attrib['id']} {description.attrib['id']}"
    assert title.text == "Lag (records)"
    assert (description.text or "").endswith("billing: latest 6, highest 7.")


def test_the_table_has_the_values_with_the_newest_first() -> None:
    assert chart(5, None, 1234).rows == (
        TableRow("08:00:20", ("1,234",)),
        TableRow("08:00:10", ("–",)),
        TableRow("08:00:00", ("5",)),
    )


def test_many_values_share_rows_that_have_the_highest() -> None:
    rows = chart(*[0.0] * 100, 9.0, *[0.0] * 43).rows
    assert len(rows) == 48 <= BANDS_MAX
    assert [row.time for row in rows if row.values == ("9",)] == ["08:16:30–08:16:50"]


def test_values_are_shown_under_the_mouse() -> None:
    titles = [rect.findtext("title") for rect in parsed(chart(5, 7)).iter("rect")]
    assert titles == ["08:00:00 UTC\nbilling: 5", "08:00:10 UTC\nbilling: 7"]


def test_a_chart_without_values_has_no_picture() -> None:
    assert chart(None, None).svg is None
    assert line_chart("x", "X", [], Unit.COUNT) == LineChart("x", "X", "count", None, (), ())
    assert line_chart("x", "X", [ChartSeries("none", [])], Unit.COUNT).legend == ()


def test_only_as_many_lines_as_there_are_colors() -> None:
    series = [ChartSeries(f"t{number}", points(number)) for number in range(20)]
    many = line_chart("x", "X", series, Unit.COUNT)
    assert [entry.color for entry in many.legend] == list(range(1, SERIES_MAX + 1))
    assert len(paths(parsed(many))) == SERIES_MAX


def test_names_can_not_be_markup() -> None:
    hostile = line_chart("x", HOSTILE, [ChartSeries(HOSTILE, points(1, 2))], Unit.COUNT)
    assert hostile.svg is not None
    assert "<script" not in hostile.svg
    assert not {"\x00", "\x1b", "\u202e"} & set(hostile.svg)
    assert {element.tag for element in parsed(hostile).iter()} <= {
        *("svg", "title", "desc", "g", "line", "text", "path", "rect")
    }
    spark = sparkline(points(1, 2), HOSTILE)
    assert "<script" not in spark
    assert "<script" in ElementTree.fromstring(spark).attrib["aria-label"]
    long = line_chart("x", "X", [ChartSeries("n" * 10_000, points(1))], Unit.COUNT)
    assert len(long.svg or "") < 5_000


def test_a_sparkline_is_one_line_or_empty() -> None:
    (path,) = paths(ElementTree.fromstring(sparkline(points(0, 5, 10), "lag")))
    assert path == "M2 22L60 12L118 2"
    assert paths(ElementTree.fromstring(sparkline(points(None, None, 0, 5, 10), "lag"))) == [path]
    assert paths(ElementTree.fromstring(sparkline(points(None), "lag"))) == []
    assert paths(ElementTree.fromstring(sparkline([], "lag"))) == []
    assert paths(ElementTree.fromstring(sparkline(points(0, 0), "lag"))) == ["M2 22L118 22"]


@given(st.lists(st.one_of(st.none(), st.floats()), min_size=1, max_size=30), st.sampled_from(Unit))
def test_any_values_make_valid_xml_without_nan(values: list[float | None], unit: Unit) -> None:
    drawn = chart(*values, unit=unit)
    for svg in (drawn.svg, sparkline(points(*values), "x")):
        if svg is not None:
            root = ElementTree.fromstring(svg)
            assert not any(word in svg.lower() for word in ("nan", "inf"))
            for path in paths(root):
                numbers = [float(text) for text in path.replace("M", " ").replace("L", " ").replace("h", " ").split()]
                assert all(math.isfinite(number) and 0 <= number <= 480 for number in numbers)
