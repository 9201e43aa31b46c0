"""Copies the pages of docs/ into a folder, with the files of the repository that they link to.

Pages are written for plain Git hosts: their links lead to any file of the repository. On the site
such a file is a page of its own: Markdown as it is, other text as a block of code, a folder as the
list of its files.
"""

from __future__ import annotations

import itertools
import posixpath
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from docs_site.diagrams import Diagrams

ROOT = Path(__file__).parents[1]
DOCS = "docs"
PROJECT_PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE")
"""Files of the root that are pages whether or not a page links to them."""
LISTED_SIZE_MAX = 200_000
"""Bytes of a file that becomes a page."""
HIDDEN = {"__pycache__", "node_modules", "target", "build", "dist"}
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "bash", ".yaml": "yaml", ".yml": "yaml", ".java": "java"}
_FENCE = re.compile(r" *(`{3,}|~{3,})(.*)")
_ITEM = re.compile(r"[-*] ")
_IN_LIST = re.compile(r"[-*] |\d+\. |\s")
_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s]+)(?P<after>\))")
_CODE = re.compile(r"`+[^`]*`+")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)


class BrokenLinks(Exception):
    """Links to files that do not exist. The message names each page and link."""


def site_path(name: str, root: Path = ROOT) -> str:
    """Return the path on the site of a file of the repository. Both are relative, with `/`."""
    path = root / name
    if name.startswith(f"{DOCS}/"):
        return f"{name.removeprefix(f'{DOCS}/')}{'/index.md' if path.is_dir() else ''}"
    if "/" not in name and path.is_file():
        return f"project/{path.stem.lower()}.md"
    if path.is_dir():
        return f"source/{name}/index.md"
    if path.name == "README.md":
        return f"source/{path.parent.relative_to(root).as_posix()}/index.md"
    return f"source/{name}" if path.suffix == ".md" else f"source/{name}.md"


def separate_lists(text: str) -> str:
    """Return Markdown with an empty line before each list that directly follows a paragraph.

    Git hosts begin a list there, Python-Markdown does not.
    """
    lines: list[str] = []
    before = ""
    for line, is_code in _lines(text):
        if not is_code and _ITEM.match(line) and before.strip() and not _IN_LIST.match(before):
            lines.append("\n")
        lines.append(line)
        before = line
    return "".join(lines)


def map_links(text: str, change: Callable[[str], str]) -> str:
    """Return Markdown with each target of a link or picture replaced. Code is left as it is."""
    parts = itertools.groupby(_lines(text), lambda line: (line[1], not line[0].strip()))
    paragraphs = ((is_code, "".join(line for line, _ in lines)) for (is_code, _), lines in parts)
    return "".join(paragraph if is_code else _map_paragraph(paragraph, change) for is_code, paragraph in paragraphs)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a page, and whether they belong to a fenced block."""
    fence = ""
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line)
        if match is not None and not fence:
            fence = match[1]
            yield line, True
        elif match is not None and match[1].startswith(fence) and not match[2].strip():
            fence = ""
            yield line, True
        else:
            yield line, bool(fence)


def _map_paragraph(text: str, change: Callable[[str], str]) -> str:
    code = [match.span() for match in _CODE.finditer(text)]

    def replaced(match: re.Match[str]) -> str:
        if any(start < match.start() and match.end() < end for start, end in code):
            return match[0]
        return f"{match['before']}{change(match['target'])}{match['after']}"

    return _LINK.sub(replaced, text)


class Staging:
    """Writes the pages of a site into a folder.

    Args:
        root: the repository.
        folder: it is emptied first.
    """

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self._root = root
        self._folder = folder
        self._waiting: list[str] = []
        self._staged: set[str] = set()
        self._broken: list[str] = []
        self._diagrams = Diagrams(folder / "diagrams")

    def run(self) -> list[str]:
        """Write all pages; return their paths on the site, sorted.

        Raises:
            BrokenLinks: a page links to a file that does not exist.
        """
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        for path in sorted((self._root / DOCS).rglob("*")):
            if path.is_file() and not _is_hidden(path.relative_to(self._root)):
                self._add(path.relative_to(self._root).as_posix())
        for name in PROJECT_PAGES:
            if (self._root / name).is_file():
                self._add(name)
        while self._waiting:
            self._stage(self._waiting.pop())
        if self._broken:
            raise BrokenLinks("\n".join(self._broken))
        return sorted(site_path(name, self._root) for name in self._staged if self._is_page(name))

    def _is_page(self, name: str) -> bool:
        return site_path(name, self._root).endswith(".md")

    def _add(self, name: str) -> None:
        if name not in self._staged:
            self._staged.add(name)
            self._waiting.append(name)

    def _stage(self, name: str) -> None:
        source, target = self._root / name, self._folder / site_path(name, self._root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not self._is_page(name):
            shutil.copyfile(source, target)
            return
        text, base = self._text(name, source)
        text = separate_lists(map_links(text, lambda link: self._link(name, base, link)))
        target.write_text(self._diagrams.draw(text, site_path(name, self._root)), encoding="utf-8")

    def _text(self, name: str, source: Path) -> tuple[str, str]:
        """Return the Markdown of a page, and the folder to which its links are relative."""
        if source.is_dir():
            readme = source / "README.md"
            head = readme.read_text(encoding="utf-8") if readme.is_file() else f"# {name}\n"
            return f"{head}\n## Files\n\n{''.join(_listing(source))}", name
        text = source.read_text(encoding="utf-8")
        if source.suffix != ".md":
            text = f"# {source.name}\n\n`{name}`\n\n{_fenced(text, LANGUAGES.get(source.suffix, 'text'))}"
        return text, posixpath.dirname(name)

    def _link(self, name: str, base: str, link: str) -> str:
        """Return the target of a link on the site, and add the file that it leads to."""
        if _ABSOLUTE.match(link):
            return link
        file, mark, anchor = link.partition("#")
        linked = posixpath.normpath(posixpath.join(base, file))
        path = self._root / linked
        if linked.startswith("..") or not path.exists():
            self._broken.append(f"{name}: {link} leads to no file of the repository")
            return link
        if path.is_dir() and linked == DOCS:
            linked = f"{DOCS}/index.md"
        if path.is_dir() and (path / "README.md").is_file() and linked.startswith(f"{DOCS}/"):
            linked = f"{linked}/README.md"
        elif path.name == "README.md" and not linked.startswith(f"{DOCS}/") and "/" in linked:
            linked = posixpath.dirname(linked)  # one page for a folder and its README
        self._add(linked)
        start = posixpath.dirname(site_path(name, self._root)) or "."
        return f"{posixpath.relpath(site_path(linked, self._root), start)}{mark}{anchor}"


def _is_hidden(path: Path) -> bool:
    return any(part in HIDDEN or part.startswith(".") or part.endswith(".egg-info") for part in path.parts)


def _listing(folder: Path) -> Iterator[str]:
    """Yield a line for each folder and text file of a folder."""
    for path in sorted(folder.iterdir()):
        if not _is_hidden(Path(path.name)) and (path.is_dir() or _is_text(path)):
            yield f"- [`{path.name}{'/' if path.is_dir() else ''}`]({path.name})\n"


def _is_text(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size > LISTED_SIZE_MAX:
        return False
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _fenced(text: str, language: str) -> str:
    """Return text as a block of code whose fence is longer than any in the text."""
    longest = max((len(match) for match in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
