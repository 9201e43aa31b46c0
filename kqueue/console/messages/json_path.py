"""JSON paths (RFC 9535) with an optional comparison: ``$.total``, ``$.items[*].sku == "A-1"``.

The paths come from a URL, and the documents from anybody, so both together must not cost more than
a bounded time. The library calls `_CountedMatch` for each node that a path visits, which stops at a
limit. It does not for paths in filters: those lead to one node at most, or are refused. Functions
with regular expressions, which may take exponential time, are left out.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jsonpath import CompoundJSONPath, JSONPath, JSONPathEnvironment, JSONPathMatch
from jsonpath.exceptions import JSONPathError
from jsonpath.filter import BaseExpression, FilterQuery
from jsonpath.function_extensions import Length
from jsonpath.selectors import Filter

from kqueue.base.text import short_repr
from kqueue.console.messages.json_layout import parse_json

EXPRESSION_CHARACTERS_MAX = 200
VISITS_MAX = 20_000
"""Nodes that a path may visit in one document."""
NODES_MAX = 20_000
"""Nodes of a document that is searched."""
_COMPARISON = re.compile(r"(?s)(.*?[^\s=!<>])\s*(==|!=|<=|>=|<|>)\s*([^\s=].*)")
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_VISITS = "visits"
_REFUSED = (JSONPathError, RecursionError, ValueError, IndexError)


class JsonPathError(ValueError):
    """An expression is no JSON path, or costs too much for a document."""


class _CountedMatch(JSONPathMatch):
    """A node, counted when a path comes to it."""

    def __init__(self, *, filter_context: Mapping[str, Any], **rest: Any) -> None:
        super().__init__(filter_context=filter_context, **rest)
        visits = filter_context[_VISITS]
        visits[0] += 1
        if visits[0] > VISITS_MAX:
            raise JsonPathError(f"the path visits more than {VISITS_MAX:,} nodes of a value")


class _BoundedEnvironment(JSONPathEnvironment):
    def setup_function_extensions(self) -> None:
        """Leave out `match` and `search`, and those that take more than one node."""
        self.function_extensions["length"] = Length()


_ENVIRONMENT = _BoundedEnvironment(strict=True)


class JsonPath:
    """A compiled expression. Thread: any.

    Raises: JsonPathError: it is none.
    """

    def __init__(self, expression: str) -> None:
        self.expression = expression.strip()
        if len(self.expression) > EXPRESSION_CHARACTERS_MAX:
            raise JsonPathError(f"a JSON path has at most {EXPRESSION_CHARACTERS_MAX} characters")
        self._compare: Callable[[Any], bool] | None = None
        path = self.expression
        if (parts := _COMPARISON.fullmatch(path)) and (compiled := _compiled(parts[1])):
            try:
                literal = parse_json(parts[3])
            except ValueError:
                raise JsonPathError(
                    f"{short_repr(parts[3])} is no JSON value to compare with: a text needs quotes"
                ) from None
            compare = _OPERATORS[parts[2]]
            self._compare = lambda value: _compares(compare, value, literal)
            self._path = compiled
            return
        try:
            self._path = _checked(_ENVIRONMENT.compile(path))
        except JsonPathError:
            raise
        except _REFUSED as error:
            raise JsonPathError(f"{short_repr(path)} is no JSON path such as $.name: {_reason(error)}") from None

    def matches(self, document: Any) -> bool:
        """Return whether the path leads to a node for which the comparison, if any, is true.

        Raises: JsonPathError: the document is too large for the path.
        """
        if not isinstance(document, (dict, list)) and self.expression != "$" and self._compare is None:
            return False
        _check_size(document)
        try:
            for match in self._nodes(document):
                if self._compare is None or self._compare(match.obj):
                    return True
        except JsonPathError:
            raise
        except _REFUSED as error:
            raise JsonPathError(f"the path can't be followed in a value: {_reason(error)}") from None
        return False

    def _nodes(self, document: Any) -> Iterable[JSONPathMatch]:
        matches: Iterable[JSONPathMatch] = [
            _CountedMatch(filter_context={_VISITS: [0]}, obj=document, parent=None, path="$", parts=(), root=document)
        ]
        for segment in self._path.segments:
            matches = segment.resolve(matches)
        return matches


def _checked(path: JSONPath | CompoundJSONPath) -> JSONPath:
    """Return a path whose filters are cheap. Raises: JsonPathError."""
    if not isinstance(path, JSONPath):
        raise JsonPathError("paths can't be joined by | or &: search for one of them")
    for segment in path.segments:
        for selector in segment.selectors:
            if isinstance(selector, Filter):
                _check_filter(selector.expression)
    return path


def _check_filter(expression: BaseExpression) -> None:
    if isinstance(expression, FilterQuery) and not expression.path.singular_query():
        raise JsonPathError("a path in a filter leads to one value, such as @.name: no *, .. or ?")
    for child in expression.children():
        _check_filter(child)


def _reason(error: BaseException) -> str:
    """Return the library's first words: its errors can't be turned into text of empty paths."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error.args[0])[:200] if error.args else type(error).__name__


def _compiled(path: str) -> JSONPath | None:
    try:
        return _checked(_ENVIRONMENT.compile(path))
    except _REFUSED:
        return None  # the operator belongs to a filter in the path


def _compares(compare: Callable[[Any, Any], bool], value: Any, literal: Any) -> bool:
    if isinstance(value, bool) != isinstance(literal, bool):  # Python has True == 1
        return compare is operator.ne
    try:
        return bool(compare(value, literal))
    except TypeError:  # texts have no order among numbers
        return False


def _check_size(document: Any) -> None:
    to_come, count = [document], 0
    while to_come:
        one = to_come.pop()
        children = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        count += len(children)
        if count > NODES_MAX:
            raise JsonPathError(f"a value has more than {NODES_MAX:,} nodes")
        to_come += [child for child in children if isinstance(child, (dict, list))]
