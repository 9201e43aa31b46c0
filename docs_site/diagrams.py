"""Draws Mermaid's blocks as pictures, so that no page loads Mermaid from another host."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

_BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def render(source: str) -> str:
    """Return a diagram as SVG."""
    import mmdr

    return str(mmdr.render(source).svg())


class Diagrams:
    """Writes each diagram into a folder, under the hash of its source.

    Args:
        folder: inside of the folder of the site's pages, made when needed.
        render: from Mermaid's source to SVG.
    """

    def __init__(self, folder: Path, render: Callable[[str], str] = render) -> None:
        self._folder = folder
        self._render = render

    def draw(self, text: str, page: str) -> str:
        """Return Markdown with a picture for each diagram.

        Args:
            page: its path on the site, to which the picture's is relative.
        """

        def picture(match: re.Match[str]) -> str:
            source = match[1]
            name = f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.svg"
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / name).write_text(self._render(source), encoding="utf-8")
            path = posixpath.relpath(f"{self._folder.name}/{name}", posixpath.dirname(page) or ".")
            return f"![{_described(source)}]({path}){{ .diagram }}"

        return _BLOCK.sub(picture, text)


def _described(source: str) -> str:
    """Return what a diagram shows, for those who do not see it."""
    kind = "Sequence" if source.startswith("sequenceDiagram") else "Diagram"
    names = re.findall(r"^ *participant \w+ as (.+)$", source, re.MULTILINE)
    names = names or list(dict.fromkeys(re.findall(r"\b(\w+)(?:\[[^]]*\])? *-->", source)))
    return re.sub(r"[\[\]]", "", f"{kind} of {', '.join(names)}")
