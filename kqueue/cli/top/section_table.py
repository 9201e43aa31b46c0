"""Draws a section of the screen: its title, the titles of its columns, and the rows that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from kqueue.base.terminal import one_line
from kqueue.cli.top.picture import Picture
from kqueue.cli.top.sections import FAINT, TOPICS, WARN, Cell, Column, ScreenSection
from kqueue.cli.top.view import SectionView

GAP = 2
LINES_BESIDE_ROWS = 2
COLUMN_HEAD, SORTED_HEAD = "bold dim", "bold underline"


@dataclass(frozen=True, slots=True)
class SectionTable:
    """The rows of a section that the view has chosen.

    Attributes:
        rows: sorted, and only those that the filter finds.
        total: how many there are without the filter.
        empty: the lines where there is no row.
    """

    section: ScreenSection
    view: SectionView
    rows: Sequence[Any]
    total: int
    empty: Sequence[str]

    @property
    def line_count(self) -> int:
        """The number of lines that show all rows."""
        return LINES_BESIDE_ROWS + len(self.rows) if self.rows else 1 + len(self.empty)

    def lines(self, width: int, count: int, *, is_focused: bool = False, series: bool = True) -> list[Text]:
        """Return the section as exactly `count` lines.

        Args:
            is_focused: it is marked, and begins with the row that was moved to.
            series: False: without columns of the latest values.
        """
        room = max(0, count - LINES_BESIDE_ROWS)
        offset = min(self.view.offset, max(0, len(self.rows) - room)) if is_focused else 0
        shown = self.rows[offset : offset + room]
        lines = [self._title(offset, len(shown), width, is_focused=is_focused)]
        if self.rows:
            columns = _fitting(self.section.columns, width, series=series)
            lines += [self._heads(columns), *(_row(columns, row) for row in shown)]
        else:
            lines += [Text(f"  {line}", style=FAINT) for line in self.empty]
        return [*lines, *[Text()] * count][:count]

    def _title(self, offset: int, count: int, width: int, *, is_focused: bool) -> Text:
        line = Text.assemble((self.section.title, "bold reverse" if is_focused else "bold"), " ")
        selected = len(self.rows)
        if count < selected:
            line.append(f"{offset + 1} to {offset + count} of {selected:,}", style=FAINT)
        elif self.total:
            line.append(f"{selected:,}" if selected == self.total else f"{selected:,} of {self.total:,}", style=FAINT)
        if self.view.text:
            line.append(f"  /{one_line(self.view.text)}", style=WARN)
        line.append(" ")
        line.append("─" * max(0, width - line.cell_len), style=FAINT)
        return line

    def _heads(self, columns: Sequence[tuple[Column, int]]) -> Text:
        cells = []
        for column, width in columns:
            title, style = column.title, COLUMN_HEAD
            if column is self.section.columns[self.view.sorted_by]:
                title, style = title[: width - 1] + ("▼" if self.view.descending else "▲"), SORTED_HEAD
            cells.append(_fill(Cell(title, style), width, is_text=column.is_text))
        return Text(" " * GAP).join(cells)


def table_of(section: ScreenSection, picture: Picture, view: SectionView, *, internal: bool) -> SectionTable:
    """Return what the view has chosen of a section. `internal`: of internal topics too."""
    rows = section.rows(picture)
    if section is TOPICS and not internal:
        rows = [row for row in rows if not row.is_internal]
    selected = section.select(rows, view.sorted_by, descending=view.descending, text=view.text)
    empty = [f"no {section.title.lower()} whose name has this text"] if rows else section.empty(picture)
    return SectionTable(section, view, selected, len(rows), empty)


def _fitting(columns: Sequence[Column], width: int, *, series: bool) -> list[tuple[Column, int]]:
    """Return the columns that fit with their widths; of those that do not, the highest rank goes,
    and of one rank the last.
    """
    chosen = [column for column in columns if series or not column.is_series]
    while len(chosen) > 1 and _width(chosen) > width:
        chosen.remove(max(reversed(chosen), key=lambda column: column.rank))
    spare = max(0, width - _width(chosen))
    widths = []
    for column in chosen:
        more = min(spare, max(0, column.width_max - column.width))
        spare -= more
        widths.append(column.width + more)
    return list(zip(chosen, widths, strict=True))


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def _row(columns: Sequence[tuple[Column, int]], row: object) -> Text:
    cells = []
    for column, width in columns:
        cell = column.cell(row)
        if column.is_series:
            cell = Cell(cell.text[-width:], cell.style)
        cells.append(_fill(cell, width, is_text=column.is_text))
    return Text(" " * GAP).join(cells)


def _fill(cell: Cell, width: int, *, is_text: bool) -> Text:
    """Return a cell of exactly this width: a name that is too long ends in an ellipsis."""
    text = Text(cell.text, style=cell.style)
    text.truncate(width, overflow="ellipsis")
    pad = Text(" " * max(0, width - cell_len(text.plain)))
    return Text.assemble(text, pad) if is_text else Text.assemble(pad, text)
