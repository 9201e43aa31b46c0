"""`Templates`: Jinja with autoescape, and the filters by which pages write numbers and names.

Names of topics, groups, clients and keys are others' text. Markup in them is escaped, and so are
control characters and marks of direction, which could hide or reorder what a page says.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from kqueue.base.terminal import escaped
from kqueue.base.text import counted, size_text
from kqueue.console.navigation import is_current


class Templates:
    """The templates of the package."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("kqueue.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            finalize=_visible,
        )
        self._environment.filters.update(
            exact=exact, number=number, size=size, when=when, path=path_segment, counted=counted
        )
        self._environment.tests["current"] = is_current

    def render(self, template: str, data: dict[str, Any]) -> str:
        """Return a page. `template`: a file's name in `templates/`."""
        return self._environment.get_template(template).render(data)


def _visible(value: object) -> object:
    """Return what is written for the value of an expression."""
    return escaped(value) if type(value) is str else value


def exact(value: str) -> Markup:
    """Return text as the value of a field, which the browser sends back unchanged."""
    return Markup(escape(value))


def number(value: int | float | None) -> str:
    """Return a number with separators of thousands; None: a dash."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def size(value: float | None) -> str:
    """Return bytes in a unit that suits them; None: a dash."""
    return "–" if value is None else size_text(value)


def when(timestamp_ms: int | None) -> str:
    """Return milliseconds since 1970 as date and time in UTC; None and negative: a dash."""
    if timestamp_ms is None or timestamp_ms < 0:
        return "–"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def path_segment(name: str) -> Markup:
    """Return a name as one segment of a path in a link. A name of dots is no step up or down."""
    quoted = quote(name, safe="")
    return Markup("%2E" * len(name) if name in (".", "..") else quoted)
