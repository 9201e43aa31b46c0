"""The project's source files as syntax trees, and what `test_tidy` measures in them."""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kqueue"
TESTS = PACKAGE / "tests"
APART = {
    "spark-units": TESTS / "spark",
    "console": TESTS / "console",
    "docs": TESTS / "docs",
    "registry": TESTS / "schema_registry",
}
"""Tests by the environment of tox that runs them alone: no other test needs its packages, or few
changes of the code can fail them."""
SOURCES = (
    "kqueue",
    "compat_tests",
    "cluster_tests",
    "console_tests",
    "package_tests",
    "release",
    "plugins",
    "benchmarks",
    "docs_site",
    "deploy",
    "examples",
    "pyspark_kqueue",
)
DOCUMENTS = (
    "*.md",
    "docs/**/*.md",
    "compat_tests/**/*.md",
    "cluster_tests/**/*.md",
    "console_tests/*.md",
    "plugins/**/*.md",
    "examples/*.md",
)
HANDLER_FUNCTIONS = ("handle", "error_response")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceFile:
    """One Python file. `path` is relative to the project's root."""

    path: Path

    @cached_property
    def text(self) -> str:
        return (ROOT / self.path).read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def is_test(self) -> bool:
        return "tests" in self.path.parts or self.path.parts[0] in (
            "compat_tests",
            "cluster_tests",
            "console_tests",
            "package_tests",
            "benchmarks",
            "docs_site",
            "deploy",
            "examples",
        )

    @property
    def module(self) -> str:
        """The dotted name under which the file is imported."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def functions(self) -> Iterator[tuple[str, Function]]:
        """All functions and methods, nested ones too, by their qualified name."""
        yield from _functions(self.tree, "")

    def classes(self) -> Iterator[ast.ClassDef]:
        """The classes at the top of the module."""
        return (node for node in self.tree.body if isinstance(node, ast.ClassDef))

    def public(self) -> Iterator[tuple[str, ast.Module | ast.ClassDef | Function]]:
        """The module, its public classes and functions, and the public methods of these classes."""
        yield "", self.tree
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                yield node.name, node
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, node
                for method in node.body:
                    if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and not method.name.startswith("_"):
                        yield f"{node.name}.{method.name}", method


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in _statements_in(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements, handlers and cases directly in a statement. Expressions, which are most
    of a tree, have none.
    """
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        yield from getattr(node, name, ())


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements below a node."""
    for child in _statements_in(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        else:
            yield from _imports(child)


def source_files(*folders: str) -> Iterator[SourceFile]:
    """All Python files below the folders, which are relative to the project's root.

    Who drops each file before the next drops its tree too. With all trees in memory the garbage
    collector takes three times as long as the parser.
    """
    paths = itertools.chain.from_iterable((ROOT / folder).rglob("*.py") for folder in folders)
    hidden = {"build", ".tox", "__pycache__"}
    return (SourceFile(path.relative_to(ROOT)) for path in sorted(paths) if not hidden & set(path.parts))


def shipped_files() -> Iterator[SourceFile]:
    """The files of the package without its tests."""
    return (file for file in source_files("kqueue") if not file.is_test)


def does_something(function: Function) -> bool:
    """Whether the body is more than a docstring, ``...`` or ``pass``, as in a protocol."""
    return not all(
        isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in function.body
    )


def lines_of(function: Function) -> int:
    """The lines of a function without its decorators."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def parameters_of(function: Function) -> int:
    """The parameters of a function; `self` and `cls` do not count, `*args` and `**kwargs` count as
    one each.
    """
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")]) + bool(arguments.vararg) + bool(arguments.kwarg)


def is_overload(node: ast.AST) -> bool:
    """Whether the node is a signature for type checkers; the function itself has the docstring."""
    return isinstance(node, Function) and any(
        ast.unparse(decorator).rpartition(".")[2] == "overload" for decorator in node.decorator_list
    )


def is_command(function: Function) -> bool:
    """Whether click calls the function: its parameters are then the options of a command."""
    return any(
        "click" in ast.unparse(decorator) or "option" in ast.unparse(decorator) for decorator in function.decorator_list
    )


def import_graph(files: Iterable[SourceFile]) -> dict[str, set[str]]:
    """The modules among the files that each of them imports.

    Imports under ``TYPE_CHECKING`` and inside functions count.
    """
    by_name = {file.module: file for file in files}
    graph: dict[str, set[str]] = {}
    for name, file in by_name.items():
        imported = set()
        for node in _imports(file.tree):
            if isinstance(node, ast.Import):
                imported.update(alias.name for alias in node.names)
            elif node.module and not node.level:
                for alias in node.names:
                    submodule = f"{node.module}.{alias.name}"
                    imported.add(submodule if submodule in by_name else node.module)
        graph[name] = (imported & by_name.keys()) - {name}
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of modules that import each other, also through others (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for imported in sorted(graph[module]):
            if imported not in order:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in stack:
                lowest[module] = min(lowest[module], order[imported])
        if lowest[module] == order[module]:
            start = stack.index(module)
            components.append(sorted(stack[start:]))
            del stack[start:]

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return [component for component in components if len(component) > 1]


def classes_by_package(files: Iterable[SourceFile]) -> dict[tuple[str, str], list[str]]:
    """The modules that define a class of each name, by top-level package below `kqueue` and name of
    the class.
    """
    modules: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file in files:
        package = file.path.parts[1]
        for node in file.classes():
            modules[package, node.name].append(file.module)
    return modules


def undocumented(files: Iterable[SourceFile]) -> Iterator[str]:
    """The public names without a docstring, as ``path:name``.

    A method needs none where a base class or a protocol documents a method of that name, and the
    functions of an API handler need none: `kqueue.api.table` documents them for all.
    """
    files = list(files)
    bases: dict[str, set[str]] = defaultdict(set)
    documented: dict[str, set[str]] = defaultdict(set)
    of_protocols = set[str]()
    for file in files:
        for node in file.classes():
            bases[node.name].update(_base_names(node))
            documented[node.name].update(
                method.name for method in node.body if isinstance(method, Function) and ast.get_docstring(method)
            )
            if "Protocol" in bases[node.name]:
                of_protocols |= documented[node.name]
    for file in files:
        for name, node in file.public():
            class_name, _, method_name = name.rpartition(".")
            if ast.get_docstring(node) or is_overload(node):
                continue
            if file.module.startswith("kqueue.api.") and name in HANDLER_FUNCTIONS:
                continue
            inherited = of_protocols.union(*(documented[base] for base in _ancestors(class_name, bases)))
            if not class_name or method_name not in inherited:
                yield f"{file.path}:{name}"


def _base_names(node: ast.ClassDef) -> set[str]:
    """The names of the bases without their modules and type arguments."""
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def _ancestors(name: str, bases: Mapping[str, set[str]]) -> set[str]:
    ancestors: set[str] = set()
    pending = [name]
    while pending:
        for base in bases.get(pending.pop(), ()):
            if base not in ancestors:
                ancestors.add(base)
                pending.append(base)
    return ancestors


def test_paths(file: SourceFile) -> tuple[Path, Path]:
    """Return where the tests of a shipped module may be: a file of its name, or a folder of its
    name.
    """
    relative = file.path.relative_to("kqueue")
    if relative.name == "__init__.py":
        relative = relative.parent
    folder = TESTS / relative.parent
    return folder / f"test_{relative.stem}.py", folder / relative.stem


test_paths.__test__ = False  # type: ignore[attr-defined]  # pytest collects functions by their prefix


def prose_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a Markdown file that are neither code, nor part of a table, nor a lone link."""
    is_code = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.lstrip().startswith("|") and not line.startswith("    "):
            yield number, line
