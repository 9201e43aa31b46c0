"""Everything that the documents name exists: modules, tests, functions of tests, and the targets of
links.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

from kqueue.tests.tables import for_each

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.py)(?:::(\w+))?`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")
FOLDER = re.compile(r"`((?:kqueue|compat_tests|cluster_tests|plugins|benchmarks|examples|docs)(?:/[\w.-]+)*)/`")
INTERNALS = (
    "durability", "glossary", "limits", "log-format", "membership", "plugins", "recovery", "replication", "spark",
    "testing", "threads-and-waiting", "transactions",
)  # fmt: skip
ids = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


def located(name: str) -> Path | None:
    """The file that a document names: from the root, below the package, or below its tests."""
    paths = (base / name for base in (ROOT, ROOT / "kqueue", ROOT / "kqueue" / "tests"))
    return next((path for path in paths if path.is_file()), None)


@for_each("document", DOCUMENTS)
def test_every_path_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for name, function in PATH.findall(text):
        path = located(name)
        assert path is not None, name
        assert not function or f"def {function}(" in path.read_text(encoding="utf-8"), f"{name}::{function}"
    for name in FOLDER.findall(text):
        assert (ROOT / name).is_dir(), name


@for_each("document", DOCUMENTS)
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_the_documents_are_there_and_linked() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for name in INTERNALS:
        assert (ROOT / "docs" / "internals" / f"{name}.md").is_file()
        assert f"(internals/{name}.md)" in index
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "index.md" or f"({path.name})" in index


def test_the_layers_are_those_of_the_lint() -> None:
    """The table of ARCHITECTURE.md has the packages in the order of `importlinter.toml`."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.partition("## The layers")[2].partition("\n\n`testing`")[0]
    packages = re.findall(r"^\|[^|]*\| ([^|]+) \|", table, re.MULTILINE)[1:]
    documented = [re.findall(r"`(\w+)(?:\.py)?`", cell) for cell in packages]
    with (ROOT / "importlinter.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["name"] == "layers")
    linted = [sorted(re.findall(r"\w+", re.sub(r"\([^)]*\)", "", layer))) for layer in layers]
    assert sorted(itertools.chain(*documented)) == sorted(itertools.chain(*linted))
    order = {package: number for number, names in enumerate(linted) for package in names}
    numbers = [order[package] for names in documented for package in names]
    assert numbers == sorted(numbers)
    folders = {path.parent.name for path in (ROOT / "kqueue").glob("*/__init__.py")} - {"testing", "tests"}
    assert set(order) == folders | {"app"}


@for_each("document", DOCUMENTS)
def test_diagrams_name_modules_or_packages(document: Path) -> None:
    for name in re.findall(r"participant \w+ as ((?:\w+/)+\w+)", document.read_text(encoding="utf-8")):
        assert located(f"{name}.py") or located(f"{name}/__init__.py"), name
