"""Tests of docs_site: pages are staged with working links, all are in the navigation, and a broken
site is found to be broken. `tox -e docs` builds the real one.
"""

from __future__ import annotations

import json
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kqueue.tests.source_tree import ROOT
from kqueue.tests.tables import for_each

DIAGRAMS: Any = import_module("docs_site.diagrams")
LINKS: Any = import_module("docs_site.links")
MAIN: Any = import_module("docs_site.__main__")
NAVIGATION: Any = import_module("docs_site.navigation")
STAGING: Any = import_module("docs_site.staging")
VERSIONS: Any = import_module("docs_site.versions")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small one, with a page that links to files of other folders."""
    files = {
        "docs/index.md": "# Home\n\n[read](start/one.md#a) [me](../README.md) ![p](pictures/p.svg)\n",
        "docs/start/one.md": "# `One`\n\n[home](../index.md), [code](../../examples/a.py), [all](../../examples)\n",
        "docs/pictures/p.svg": "<svg/>",
        "examples/a.py": 'TEXT = """```"""\n',
        "examples/README.md": "# Examples\n\n[one](a.py), [host](https://example.org/x)\n",
        "examples/data.bin": "",
        "README.md": "# All\n\n[docs](docs/index.md)\n",
        "LICENSE": "free\n",
    }
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "root/examples/data.bin").write_bytes(b"\xff\xfe")
    return tmp_path / "root"


def staged(root: Path) -> tuple[Path, list[str]]:
    folder = root.parent / "pages"
    return folder, STAGING.Staging(folder, root).run()


def test_files_that_pages_link_to_become_pages(repository: Path) -> None:
    folder, pages = staged(repository)
    assert pages == [
        "index.md",
        "project/license.md",
        "project/readme.md",
        "source/examples/a.py.md",
        "source/examples/index.md",
        "start/one.md",
    ]
    one = (folder / "start/one.md").read_text()
    assert "[home](../index.md), [code](../source/examples/a.py.md), [all](../source/examples/index.md)" in one
    assert "[read](start/one.md#a) [me](project/readme.md) ![p](pictures/p.svg)" in (folder / "index.md").read_text()
    assert (folder / "pictures/p.svg").read_text() == "<svg/>"


def test_a_folder_is_its_readme_and_the_list_of_its_texts(repository: Path) -> None:
    folder, _ = staged(repository)
    text = (folder / "source/examples/index.md").read_text()
    assert "[one](a.py.md), [host](https://example.org/x)" in text
    assert "- [`a.py`](a.py.md)\n" in text
    assert "data.bin" not in text


def test_code_has_a_fence_that_it_does_not_end(repository: Path) -> None:
    folder, _ = staged(repository)
    assert '````python\nTEXT = """```"""\n````\n' in (folder / "source/examples/a.py.md").read_text()


@for_each("link", ["missing.md", "../../outside.md", "start/two.md#a"])
def test_a_link_to_no_file_is_named_with_its_page(repository: Path, link: str) -> None:
    (repository / "docs/index.md").write_text(f"# Home\n\n[x]({link})\n")
    with pytest.raises(STAGING.BrokenLinks, match=r"docs/index\.md: .* leads to no file of the repository"):
        staged(repository)


@for_each(
    "text,changed",
    [
        ("[a](b.md)", "[a](X)"),
        ("`[a](b.md)` and [a](b.md)", "`[a](b.md)` and [a](X)"),
        ("```sh\n[a](b.md)\n```\n[a](b.md)", "```sh\n[a](b.md)\n```\n[a](X)"),
        ("````\n```\n[a](b.md)\n````\n", "````\n```\n[a](b.md)\n````\n"),
        ("[`a`](b.md)", "[`a`](X)"),
        ("`a\nb` [a](b.md) `c`", "`a\nb` [a](X) `c`"),
        ("a `\n\n[a](b.md) `c`", "a `\n\n[a](X) `c`"),
    ],
)
def test_links_of_code_stay(text: str, changed: str) -> None:
    assert STAGING.map_links(text, lambda link: "X") == changed


@for_each(
    "text,separated",
    [
        ("a:\n- b\n- c\n", "a:\n\n- b\n- c\n"),
        ("- a\n  b\n- c\n", "- a\n  b\n- c\n"),
        ("```\na\n- b\n```\n", "```\na\n- b\n```\n"),
        ("a\n\n- b\n", "a\n\n- b\n"),
    ],
)
def test_a_list_after_a_paragraph_begins_with_an_empty_line(text: str, separated: str) -> None:
    assert STAGING.separate_lists(text) == separated


def test_diagrams_are_pictures_that_say_what_they_show(tmp_path: Path) -> None:
    drawn = DIAGRAMS.Diagrams(tmp_path / "diagrams", lambda source: f"<svg>{source}</svg>").draw(
        "a\n\n```mermaid\nflowchart TD\n    cli --> log[the log]\n    log --> base\n```\n\nb\n", "internals/x.md"
    )
    (picture,) = (tmp_path / "diagrams").iterdir()
    assert drawn == f"a\n\n![Diagram of cli, log](../diagrams/{picture.name}){{ .diagram }}\n\nb\n"
    assert "cli --> log" in picture.read_text()


def listed(entries: Any) -> list[str]:
    return [
        page
        for entry in entries
        for value in entry.values()
        for page in ([value] if isinstance(value, str) else listed(value))
    ]


def test_every_page_of_docs_is_in_the_navigation_once() -> None:
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    entries = NAVIGATION.Navigation(pages, ROOT / "docs").entries()
    assert sorted(listed(entries)) == sorted(pages)
    assert [name for entry in entries for name in entry] == [
        "Home", "Tutorials", "How-to", "Reference", "Internals", "Decisions", "Report card", "Benchmarks",
    ]  # fmt: skip


def test_a_page_that_nobody_listed_is_in_the_section_of_its_folder(tmp_path: Path) -> None:
    names = [
        "index.md",
        "start/new.md",
        "reference/new.md",
        "internals/new.md",
        "new.md",
        "source/a.md",
        "internals/index.md",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# A `new` page: {name}\n")
    sections = {name: listed([entry]) for entry in NAVIGATION.Navigation(names, tmp_path).entries() for name in entry}
    assert sections == {
        "Home": ["index.md"],
        "Tutorials": ["start/new.md"],
        "How-to": ["new.md"],
        "Reference": ["reference/new.md"],
        "Internals": ["internals/new.md"],
    }


def test_the_configuration_is_toml_with_the_navigation() -> None:
    entries = [{"Home": "index.md"}, {'A "b" \\': [{"C": "c.md"}]}]
    text = MAIN.configuration((ROOT / "zensical.toml").read_text(), NAVIGATION.as_toml(entries))
    project = tomllib.loads(text)["project"]
    assert project["nav"] == entries
    assert project["theme"]["font"] is False
    assert {palette.get("scheme") for palette in project["theme"]["palette"]} == {None, "default", "slate"}


def site(folder: Path, **pages: str) -> list[str]:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return LINKS.check(folder)


@for_each(
    "text,wrong",
    [
        ('<a href="b.html#there">', ""),
        ('<a href="https://example.org">', ""),
        ('<a href="b.html#gone">', "a.html: b.html#gone leads to no heading of b.html"),
        ('<a href="c.html">', "a.html: c.html leads to no file"),
        ('<a href="#gone">', "a.html: #gone leads to no heading of a.html"),
        ('<img src="https://example.org/p.png">', "a.html: loads https://example.org/p.png from another host"),
        ('<script src="//example.org/p.js">', "a.html: loads //example.org/p.js from another host"),
        (
            '<link rel="preconnect" href="https://fonts.example.org">',
            "a.html: loads https://fonts.example.org from another host",
        ),
    ],
)
def test_broken_links_and_other_hosts_are_found(tmp_path: Path, text: str, wrong: str) -> None:
    assert site(tmp_path, a=text, b='<h2 id="there">') == ([wrong] if wrong else [])


def test_styles_that_load_from_other_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@import 'https://example.org/f.css'; p { background: url(data:image/png,x) }")
    assert site(tmp_path) == ["a.css: loads https://example.org/f.css from another host"]


def test_the_newest_version_is_the_latest_one(tmp_path: Path) -> None:
    built, folder = tmp_path / "built", tmp_path / "all"
    built.mkdir()
    for version in ("0.10", "0.9", "0.10"):
        (built / "index.html").write_text(version)
        VERSIONS.publish(built, folder, version)
    rows = json.loads((folder / "versions.json").read_text())
    assert [(row["version"], row["aliases"]) for row in rows] == [("0.10", ["latest"]), ("0.9", [])]
    assert (folder / "latest/index.html").read_text() == "0.10"
    assert (folder / "0.9/index.html").read_text() == "0.9"
    assert "latest/" in (folder / "index.html").read_text()


@for_each("name", ["latest", "..", "a/b", "", ".work"])
def test_a_version_that_is_no_name_of_a_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected letters, digits"):
        VERSIONS.publish(Path("built"), Path("all"), name)
