"""Checks built HTML: each link leads somewhere, and nothing is loaded from another host."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "object": "data",
}  # fmt: skip
LOADED_RELATIONS = {
    "stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch", "manifest",
}  # fmt: skip
_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass
class HtmlPage:
    """What a page refers to.

    Attributes:
        links: targets of links, pictures, scripts and styles.
        loaded: those that a browser requests by itself.
        anchors: ids that a link can lead to.
    """

    links: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    anchors: set[str] = field(default_factory=set)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = HtmlPage()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.page.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag in ("a", "link") and "href" in values:
            self.page.links.add(values["href"])
            if tag == "link" and LOADED_RELATIONS & set(values.get("rel", "").split()):
                self.page.loaded.add(values["href"])
        if tag in LOADED and LOADED[tag] in values:
            self.page.links.add(values[LOADED[tag]])
            self.page.loaded.add(values[LOADED[tag]])


def read_page(text: str) -> HtmlPage:
    """Return what a page of HTML refers to."""
    reader = _Reader()
    reader.feed(text)
    return reader.page


def is_elsewhere(link: str) -> bool:
    """Whether a link leads to another host."""
    return bool(urlsplit(link).netloc) or link.startswith("//")


def check(folder: Path) -> list[str]:
    """Return what is wrong with a built site, a sentence each; empty: nothing."""
    pages = {
        path.relative_to(folder).as_posix(): read_page(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }
    return [*_broken(pages, folder), *_loaded_elsewhere(pages, folder)]


def _broken(pages: dict[str, HtmlPage], folder: Path) -> Iterator[str]:
    for name, page in pages.items():
        if name == "404.html":  # its links begin at the root of the host
            continue
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
            target = name if not parts.path else path
            if (folder / target).is_dir():
                target = posixpath.normpath(f"{target}/index.html")
            if not (folder / target).is_file():
                yield f"{name}: {link} leads to no file"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {link} leads to no heading of {target}"


def _loaded_elsewhere(pages: dict[str, HtmlPage], folder: Path) -> Iterator[str]:
    for name, page in pages.items():
        yield from (f"{name}: loads {link} from another host" for link in sorted(page.loaded) if is_elsewhere(link))
    for path in sorted(folder.rglob("*.css")):
        for one, other in _URL.findall(path.read_text(encoding="utf-8")):
            if is_elsewhere(one or other):
                yield f"{path.relative_to(folder)}: loads {one or other} from another host"
