"""Draws a picture: a header, the sections that fit, and the keys. Each line is cut to the width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kqueue.admin.snapshot import UP, Snapshot
from kqueue.base.terminal import one_line
from kqueue.base.text import counted, size_text
from kqueue.cli.top.figures import duration_text, number_text, sparkline
from kqueue.cli.top.picture import Picture
from kqueue.cli.top.section_table import table_of
from kqueue.cli.top.sections import BAD, FAINT, SECTIONS, WARN
from kqueue.cli.top.view import View, first_view

SECTION_LINES_MIN, FOCUS_LINES_MIN = 4, 12
MESSAGE_CHARACTERS = 500
HEADER_SPARK_WIDTH = 30
KEYS = (
    ("1-5", "section"), ("< >", "sort"), ("r", "reverse"), ("/", "filter"), ("space", "pause"), ("?", "help"),
    ("q", "quit"),
)  # fmt: skip
HELP = """\
1 to 5, Tab, Shift-Tab   the section that keys are about; it has the most lines
< >, s S, left right     the column that it is sorted by
r                        reverse the order
/                        show rows whose name has a text; Enter keeps it, Esc ends it
up down, PgUp PgDn       move through the rows; g and G: the first and the last ones
i                        show internal topics too
space                    pause: the picture stays as it is
q, Ctrl-C                quit

RECORDS/S      growth of log ends between two readings
RECENT         the latest readings; the highest bar is the greatest of them
BYTES/S        growth of the leaders' logs; - where retention or compaction hides it
TREND/S        records by which a group's lag grows (+) or shrinks (-), over the last minute
CAUGHT UP IN   time until the lag is 0 at that trend
READS/S        records that the group has committed
HANDLING       time on the broker's thread: mean and 99th percentile of the last minute
WAITING        time until the response, of requests that waited; a Fetch waits for records"""


@dataclass(frozen=True, slots=True)
class Screen:
    """A whole screen for rich, exactly as high as the console.

    Args:
        interval_s: between two readings, for the header.
    """

    picture: Picture
    view: View
    interval_s: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n").join(self.lines(options.max_width, options.height or console.height))

    def lines(self, width: int, height: int) -> list[Text]:
        """Return the lines of a screen of this size."""
        head = header(self.picture, self.view, self.interval_s)
        footer = _footer(self.view)
        if self.view.shows_help:
            middle = [Text(), *(Text(line) for line in HELP.splitlines()), *_messages(self.picture, limit=10)]
        else:
            problem = _messages(self.picture, limit=1)
            head += [*problem, _tabs(self.picture, self.view)]
            middle = self._sections(width, height - len(head) - 1)
            if self.picture.error is not None:  # what is shown is an older reading
                for line in middle:
                    line.stylize(FAINT)
        room = max(0, height - len(head) - 1)
        middle = [*middle[:room], *[Text()] * (room - len(middle))]
        lines = [*head, *middle, footer][-height:] if height < len(head) + 1 else [*head, *middle, footer]
        return [_cut(line, width) for line in lines]

    def _sections(self, width: int, room: int) -> list[Text]:
        tables = [
            table_of(section, self.picture, view, internal=self.view.shows_internal)
            for section, view in zip(SECTIONS, self.view.sections, strict=True)
        ]
        shares = share_lines([table.line_count for table in tables], self.view.focus, room)
        lines: list[Text] = []
        for index, (table, count) in enumerate(zip(tables, shares, strict=True)):
            if count:
                lines += table.lines(width, count, is_focused=index == self.view.focus)
        return lines


def share_lines(needed: Sequence[int], focus: int, room: int) -> list[int]:
    """Return the lines of each section, 0: it is left out.

    The focused one has what it needs up to half of the room, the others share the rest evenly, and
    what one leaves goes to the others, then to the focused one.
    """
    shares = [0] * len(needed)
    shares[focus] = min(needed[focus], max(room // 2, FOCUS_LINES_MIN), room)
    left = room - shares[focus]
    others = [index for index in range(len(needed)) if index != focus]
    for position, index in enumerate(others):
        fair = left // (len(others) - position)
        # a section that is too small to say anything leaves its lines to the next one
        share = min(needed[index], max(fair, min(SECTION_LINES_MIN, left)))
        if share >= min(SECTION_LINES_MIN, needed[index]):
            shares[index] = share
            left -= share
    for index in (*others, focus):
        if shares[index]:
            more = min(needed[index] - shares[index], left)
            shares[index] += more
            left -= more
    return shares


def header(picture: Picture, view: View, interval_s: float) -> list[Text]:
    """Return the first lines: which cluster, and how it is."""
    first = Text.assemble(("kqueue top", "bold"), ("  PAUSED" if view.is_paused else "", WARN), "  ")
    snapshot = picture.snapshot
    if snapshot is None:
        first.append(
            f"{one_line(picture.bootstrap)}   reading ..." if picture.error is None else one_line(picture.bootstrap)
        )
        return [first, Text()]
    cluster = snapshot.metadata.cluster_id
    first.append(f"cluster {one_line(cluster[:MESSAGE_CHARACTERS])}  " if cluster else "")
    first.append(f"at {one_line(picture.bootstrap)}", style=FAINT)
    first.append(f"  every {interval_s:g} s", style=FAINT)
    counts = _counts(picture, snapshot)
    counts.append("  " + sparkline(picture.total_series, HEADER_SPARK_WIDTH).lstrip(), style="cyan")
    return [first, counts]


def _counts(picture: Picture, snapshot: Snapshot) -> Text:
    up = sum(broker.state == UP for broker in snapshot.brokers)
    down = len(snapshot.brokers) - up
    parts = [Text(counted(up, "broker"))]
    if down:
        parts.append(Text(f"{down} down", style=BAD))
    parts.append(Text(counted(len(snapshot.metadata.topics), "topic")))
    parts.append(Text(counted(snapshot.counts["partitions"], "partition")))
    for key, words in (("unavailable", "without a leader"), ("under_replicated", "under-replicated")):
        if snapshot.counts[key]:
            parts.append(Text(f"{snapshot.counts[key]:,} {words}", style=BAD))
    if snapshot.counts["reassigning"]:
        parts.append(Text(f"{snapshot.counts['reassigning']:,} being moved", style=WARN))
    records, size = picture.total
    if records is not None:
        parts.append(Text(f"{number_text(records)} records/s", style="bold"))
    if size is not None:
        parts.append(Text(f"{size_text(size)}/s", style="bold"))
    line = Text(", ").join(parts)
    return line


def _messages(picture: Picture, *, limit: int) -> list[Text]:
    """Return what is wrong with the readings, a line each."""
    messages = list(picture.problems)
    if picture.error is not None:
        messages.insert(0, f"not read for {duration_text(picture.failed_for_s)}: {picture.error}")
    lines = [Text(one_line(message[:MESSAGE_CHARACTERS]), style=BAD) for message in messages[:limit]]
    if lines and len(messages) > limit:
        lines[-1] = Text.assemble((f"{len(messages)} problems, see ?: ", BAD), lines[-1])
    return lines


def _tabs(picture: Picture, view: View) -> Text:
    line = Text()
    for index, section in enumerate(SECTIONS):
        is_focused = index == view.focus
        line.append(f" {index + 1} {section.title} ", style="reverse bold" if is_focused else FAINT)
        line.append(" ")
    return line


def _cut(line: Text, width: int) -> Text:
    line = line.copy()
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line


def _footer(view: View) -> Text:
    if view.edits:
        return Text.assemble(
            ("filter: ", "bold"), one_line(view.focused.text), ("▏", "blink"), ("   Enter keeps it, Esc ends it", FAINT)
        )
    if view.shows_help:
        return Text("any key: back", style=FAINT)
    line = Text()
    for key, words in KEYS:
        line.append(key, style="bold")
        line.append(f" {words}   ", style=FAINT)
    return line


def whole(picture: Picture, width: int) -> list[Text]:
    """Return all sections in full, for output that is no screen."""
    view = first_view()
    lines = [_counts(picture, picture.snapshot)] if picture.snapshot is not None else []
    lines += _messages(picture, limit=100)
    for section, chosen in zip(SECTIONS, view.sections, strict=True):
        table = table_of(section, picture, chosen, internal=True)
        lines += [Text(), *table.lines(width, table.line_count, series=False)]
    return [_cut(line, width) for line in lines]
