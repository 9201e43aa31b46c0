"""The calls that write lines of the log, found in the source of the package."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.log_event import LogEvent
from kqueue.tests.source_tree import SourceFile, shipped_files

LEVELS = ("info", "warning", "warn", "error", "exception", "critical", "fatal", "log")
PLACEHOLDER = re.compile(r"%(?:\.?\d+)*[a-z]")
WRITER = "kqueue.base.log_event"
CONSTANTS = {name: row for name, row in vars(events).items() if isinstance(row, LogEvent)}


class Lines(NamedTuple):
    """What the source writes.

    Attributes:
        unnamed: where a line names no event.
        uneven: where a text has not one placeholder for each field.
        fields: the names of the fields by the constants of the events that are used.
    """

    unnamed: list[str]
    uneven: list[str]
    fields: dict[str, list[str]]


@cache
def lines_of_package() -> Lines:
    """Return the lines that the package writes."""
    return lines_of(shipped_files())


def lines_of(files: Iterator[SourceFile] | list[SourceFile]) -> Lines:
    """Return the lines that these files write."""
    unnamed, uneven = [], []
    fields: dict[str, dict[str, None]] = defaultdict(dict)
    by_parameter: dict[str, dict[str, None]] = defaultdict(dict)
    passed: list[tuple[str, str]] = []
    for file in files:
        if file.module == WRITER or ("logg" not in file.text and "events." not in file.text):
            continue
        loggers = _loggers(file.tree)
        for function, call in _calls(file.tree):
            where = f"{file.path}:{call.lineno}"
            if _is_plain(call, loggers):
                extra = [keyword.value for keyword in call.keywords if keyword.arg == "extra"]
                if not any(_events(each) for each in extra):
                    unnamed.append(where)
                continue
            text = next((arg.value for arg in call.args if isinstance(arg, ast.Constant)), None)
            named = _events(call.func) or [name for arg in call.args for name in _events(arg)]
            if _name(call.func) == "log" and isinstance(text, str):
                names = [keyword.arg for keyword in call.keywords if keyword.arg not in ("exc_info", None)]
                if len(PLACEHOLDER.findall(text)) != len(names):
                    uneven.append(where)
                for name in named or _events(function):
                    fields[name].update(dict.fromkeys(names))
                if not named and any(arg.arg == "event" for arg in _parameters(function)):
                    by_parameter[_name(function)].update(dict.fromkeys(names))
            else:
                given = [*named, *(name for keyword in call.keywords for name in _events(keyword.value))]
                passed += ((_name(call.func), name) for name in given)
        for name in _events(file.tree):
            fields[name].update({})
    for function_name, name in passed:
        fields[name].update(by_parameter[function_name])
    return Lines(unnamed, uneven, {name: list(of_event) for name, of_event in fields.items()})


def _loggers(tree: ast.Module) -> set[str]:
    """The names of the module to which it assigns a logger."""
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and _is_logger(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _is_logger(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger"


def _is_plain(call: ast.Call, loggers: set[str]) -> bool:
    """Whether it is a call of `logging` itself, at INFO or above."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in LEVELS:
        return False
    of = call.func.value
    return _is_logger(of) or (isinstance(of, ast.Name) and of.id in {*loggers, "logging", "logger"})


def _calls(node: ast.AST, function: ast.AST | None = None) -> Iterator[tuple[ast.AST, ast.Call]]:
    """All calls, each with its innermost function."""
    function = function or node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield function, child
        yield from _calls(child, child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function)


def _events(node: ast.AST) -> list[str]:
    return [
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "events"
        and each.attr in CONSTANTS
    ]


def _parameters(node: ast.AST) -> list[ast.arg]:
    return [*node.args.args, *node.args.kwonlyargs] if isinstance(node, ast.FunctionDef) else []


def _name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "name", "")))
