from __future__ import annotations

import re

import pytest

from kqueue.base.patterns import compile_pattern
from kqueue.tests.tables import for_each


@for_each("pattern", ["[[:digit:]]+", "a[[:^alpha:]]", "[a-z&&[^b]]", "[a--b]"])
def test_classes_of_other_languages_are_refused(pattern: str) -> None:
    with pytest.raises(re.error, match=r"Possible (nested set|set \w+) at position .*; Python has no classes such"):
        compile_pattern(pattern)


@for_each("pattern", ["[0-9]+", r"[\[:]+", ".*"])
def test_patterns_of_python_are_compiled(pattern: str) -> None:
    assert compile_pattern(pattern, re.DOTALL).flags & re.DOTALL


def test_a_malformed_pattern_is_refused() -> None:
    with pytest.raises(re.error, match="unterminated"):
        compile_pattern("[a")
