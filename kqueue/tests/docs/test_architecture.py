"""Tests of ARCHITECTURE.md: its diagrams of packages are those of the code.

`python -m kqueue.tests.docs.test_architecture` writes them again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from kqueue.broker.broker import Broker
from kqueue.testing.simulation import Simulation
from kqueue.tests.source_tree import ROOT, shipped_files
from kqueue.tests.tables import for_each

PAGE = ROOT / "ARCHITECTURE.md"
LEFT_OUT = {"kqueue": {"testing", "__init__"}, "kqueue.broker": {"__init__"}}
"""By container: the test kit uses everything, and a front door imports what it is asked for."""


def runtime_imports(node: ast.AST, module: str) -> Iterator[str]:
    """Yield the modules that are imported when the code runs, not those that only name types."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.module:
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        else:
            yield from runtime_imports(child, module)


def part_of(module: str, container: str) -> str | None:
    """Return the package or module directly below `container` that has `module`; None: none."""
    if not module.startswith(f"{container}."):
        return None
    return module.removeprefix(f"{container}.").partition(".")[0]


@cache
def imports_by_module() -> dict[str, set[str]]:
    return {file.module: set(runtime_imports(file.tree, file.module)) for file in shipped_files()}


def package_graph(container: str) -> dict[str, set[str]]:
    """Return which parts of a package each of its parts imports."""
    imports = imports_by_module()
    parts = {part_of(f"{module}.x" if module == container else module, container) for module in imports}
    known = {part for part in parts if part is not None} - LEFT_OUT[container] - {"x"}
    graph: dict[str, set[str]] = {part: set() for part in known}
    for module, names in imports.items():
        part = part_of(module, container)
        if part in known:
            imported = {part_of(name, container) for name in names}
            graph[part] |= {name for name in imported if name in known} - {part}
    return graph


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out each arrow that a longer way replaces, so that the layers can be seen."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for part in graph[waiting.pop()] - seen:
                seen.add(part)
                waiting.append(part)
        return seen

    return {part: {one for one in below if not any(one in reachable(other) for other in below - {one})}
            for part, below in graph.items()}  # fmt: skip


def diagram(container: str) -> str:
    graph = reduced(package_graph(container))
    arrows = [f"    {part} --> {one}" for part in sorted(graph) for one in sorted(graph[part])]
    return "\n".join(["```mermaid", "flowchart TD", *arrows, "```"])


def table_of_broker() -> str:
    """Return a row for each package of the broker: the first line of its docstring."""
    rows = []
    for file in shipped_files():
        if file.path.name == "__init__.py" and file.module.count(".") == 2 and file.module.startswith("kqueue.broker."):
            first = (ast.get_docstring(file.tree) or "").splitlines()[0]
            rows.append(f"| `{file.module.removeprefix('kqueue.')}` | {first.partition(': ')[2]} |")
    return "\n".join(["| package | what it holds |", "|---|---|", *sorted(rows)])


def parts_of_broker() -> dict[str, str]:
    """Return what the docstring of the broker says of each part: the attributes that it builds."""
    rows = re.findall(r"^ {8}(\w+): (.*)$", Broker.__doc__ or "", re.MULTILINE)
    return dict(rows)


def table_of_parts() -> str:
    """Return a row for each part of a broker: attribute, class, and what it is."""
    broker = Simulation().broker
    rows = []
    for name, text in parts_of_broker().items():
        kind = type(getattr(broker, name))
        if name in vars(broker) and kind.__module__.startswith("kqueue.broker."):
            rows.append(f"| `{name}` | `{kind.__module__.removeprefix('kqueue.')}.{kind.__name__}` | {text} |")
    return "\n".join(["| part | class | what it is |", "|---|---|---|", *rows])


DERIVED = {
    "broker parts": table_of_parts,
    "packages": lambda: diagram("kqueue"),
    "broker packages": lambda: diagram("kqueue.broker"),
    "broker table": table_of_broker,
}


def block(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: derived -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)


@for_each("name", DERIVED)
def test_the_page_has_what_the_code_says(name: str) -> None:
    match = block(name).search(PAGE.read_text(encoding="utf-8"))
    assert match is not None
    assert match[0] == f"{match[1]}{DERIVED[name]()}{match[2]}", "run python -m kqueue.tests.docs.test_architecture"


def test_the_docstring_of_the_broker_names_all_its_parts() -> None:
    public = {name for name in vars(Simulation().broker) if not name.startswith("_")}
    assert set(parts_of_broker()) == public | {"member"}


def test_an_arrow_that_a_longer_way_replaces_is_left_out() -> None:
    assert reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}


def test_imports_that_only_name_types_are_no_arrows() -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\ndef f():\n    from b import c"
    assert set(runtime_imports(ast.parse(text), "m")) == {"typing.TYPE_CHECKING", "b.c"}


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    for name, derive in DERIVED.items():
        text = block(name).sub(lambda match, derive=derive: f"{match[1]}{derive()}{match[2]}", text)
    PAGE.write_text(text, encoding="utf-8")
