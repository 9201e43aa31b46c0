from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.safe_pattern import PATTERN_LENGTH_MAX, compile_safe, matches


@pytest.mark.parametrize(
    ("pattern", "subject", "matched"),
    [
        ("kafka-.*", "kafka-python", True),
        ("kafka-.*", "a kafka-python", False),
        (r"1\.2(\.3)?", "1.2.3", True),
        ("python|java", "java", True),
        ("[^*+?|{]x[]*]", "ax]", True),
        (r"a\*\+\?\|\{", "a*+?|{", True),
        ("(?:ab)+", "abab", True),
        ("a.*?b", "axxb", True),
        ("", "", True),
    ],
)
def test_usual_patterns_match_whole_subjects(pattern: str, subject: str, matched: bool) -> None:
    assert matches(compile_safe(pattern), subject) is matched


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a+)+", "repeats a group"),
        ("(a|aa)*", "repeats a group"),
        ("((a?)b){9}", "repeats a group"),
        ("(?:(?:a|b)c)?", "repeats a group"),
        ("a?a?a?a?aaaa", "has 4 choices"),
        (r"(a)\1", "refers to a group"),
        ("(?=a)b", "only \\(\\?: is allowed"),
        ("(?P<n>a)", "only \\(\\?: is allowed"),
        ("(", "no regular expression"),
        ("[a", "no regular expression"),
        ("a\\", "no regular expression"),
        ("a" * (PATTERN_LENGTH_MAX + 1), "at most 1000 characters"),
    ],
)
def test_patterns_that_may_take_long_or_are_invalid_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compile_safe(pattern)


PARTS = st.sampled_from(
    ["a", "b", ".", "a*", ".*", "a+", "b?", "(a|b)", "(?:ab)", "[ab]", "a{2,5}", "|", "\\.", ")", "("]
)


@given(st.lists(PARTS, max_size=8))
def test_whatever_is_accepted_matches_quickly(parts: list[str]) -> None:
    try:
        pattern = compile_safe("".join(parts))
    except ValueError:
        return
    started = time.process_time()
    matches(pattern, "a" * 5000 + "!")
    assert time.process_time() - started < 0.25


@given(st.text("ab.*+?|()[]{}\\^$1", max_size=12))
def test_any_text_is_compiled_or_refused(pattern: str) -> None:
    with contextlib.suppress(ValueError):
        assert compile_safe(pattern).pattern == re.compile(pattern).pattern
