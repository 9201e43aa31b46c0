"""The measures of `source_tree` find what they are for, shown on small made-up modules."""

from __future__ import annotations

import ast
from pathlib import Path

from kqueue.tests import source_tree
from kqueue.tests.source_tree import SourceFile
from kqueue.tests.tables import for_each


def file_of(tmp_path: Path, name: str, text: str) -> SourceFile:
    """A module outside the project's tree; an absolute path stands for itself."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return SourceFile(path)


def function(text: str) -> source_tree.Function:
    node = ast.parse(text).body[0]
    assert isinstance(node, source_tree.Function)
    return node


@for_each(
    "signature, count",
    [("", 0), ("self, a, /, b, *, c", 3), ("a, *args, **kwargs", 3), ("cls", 0)],
)
def test_parameters(signature: str, count: int) -> None:
    assert source_tree.parameters_of(function(f"def f({signature}): pass")) == count


def test_lines_of_a_function_leave_its_decorators_out() -> None:
    assert source_tree.lines_of(function("@one\n@two\ndef f():\n    a = 1\n    return a\n")) == 3


def test_functions_of_protocols_do_nothing() -> None:
    assert not source_tree.does_something(function('def f():\n    """Text."""\n'))
    assert not source_tree.does_something(function("def f(): ..."))
    assert source_tree.does_something(function('def f():\n    """Text."""\n    return 1\n'))


def test_commands_are_known_by_their_decorators() -> None:
    assert source_tree.is_command(function("@click.command()\ndef f(): pass"))
    assert source_tree.is_command(function("@output_option\ndef f(): pass"))
    assert not source_tree.is_command(function("@cache\ndef f(): pass"))


def test_nested_functions_are_named_with_what_holds_them(tmp_path: Path) -> None:
    file = file_of(tmp_path, "m.py", "class A:\n    def b(self):\n        def c(): pass\nif 1:\n    def d(): pass\n")
    assert [name for name, _ in file.functions()] == ["A.b", "A.b.c", "d"]


def test_circles() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str](), "e": {"a"}, "f": {"g"}, "g": {"f"}}
    assert sorted(source_tree.circles(graph)) == [["a", "b", "c"], ["f", "g"]]


def test_imports_for_types_and_in_functions_are_imports() -> None:
    names = ("__init__", "app", "cli/serve", "embedded/__init__")
    graph = source_tree.import_graph(SourceFile(Path(f"kqueue/{name}.py")) for name in names)
    assert "kqueue.embedded" in graph["kqueue"]  # where only type checkers look
    assert "kqueue.app" in graph["kqueue.cli.serve"]  # in a function


def test_undocumented_names(tmp_path: Path) -> None:
    text = '''"""Module."""
class Contract(Protocol):
    """Contract."""
    def serve(self):
        """Serve."""
class Base:
    """Base."""
    def run(self):
        """Run."""
class Derived(Base):
    """Derived."""
    def run(self): pass
    def stop(self): pass
    def serve(self): pass
    def _hidden(self): pass
def free(): pass
def _hidden(): pass
class Bare: pass
'''
    file = file_of(tmp_path, "kqueue/m.py", text)
    names = {violation.rpartition(":")[2] for violation in source_tree.undocumented([file])}
    assert names == {"Derived.stop", "free", "Bare"}


def test_prose_is_what_is_neither_code_nor_table(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# Title\n\n| a | b |\n```sh\nrun\n```\n    indented\nText.\n")
    assert [line for _, line in source_tree.prose_lines(path) if line] == ["# Title", "Text."]


def test_the_tests_of_a_module_are_a_file_or_a_folder_of_its_name() -> None:
    file, folder = source_tree.test_paths(SourceFile(Path("kqueue/log/segment.py")))
    assert file.is_file()
    assert folder == source_tree.TESTS / "log" / "segment"
    assert source_tree.test_paths(SourceFile(Path("kqueue/log/__init__.py")))[1] == source_tree.TESTS / "log"
