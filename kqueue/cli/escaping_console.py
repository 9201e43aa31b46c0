"""A console of rich that escapes control characters in what it prints, and reports broken pipes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from kqueue.base.terminal import escaped


class EscapingConsole(Console):
    """Texts are escaped, on a terminal only; rich's own sequences are not."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape text before its width is measured."""
        return super().render_str(escaped(text) if self.is_terminal else text, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape the segments of text."""
        for segment in super().render(renderable, options):
            if self.is_terminal and not segment.control:
                yield Segment(escaped(segment.text), segment.style)
            else:
                yield segment

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, as other output does; rich would exit with status 1."""
        raise BrokenPipeError
