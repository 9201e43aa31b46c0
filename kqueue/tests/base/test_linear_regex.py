from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.linear_regex import LinearRegex, PatternError
from kqueue.tests.steps import steps
from kqueue.tests.tables import for_each

atoms = st.sampled_from(
    ["a", "b", "-", ".", "[ab]", "[^a]", "[a-c]", "(a|b)", "(?:ab)", "()", r"\d", r"\W", r"\.", "^", "$"]
)
pieces = st.tuples(atoms, st.sampled_from(["", "", "*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])).map("".join)
sequences = st.lists(pieces, max_size=4).map("".join)
patterns = st.lists(sequences, min_size=1, max_size=3).map("|".join)


@given(patterns, st.text(alphabet="abc-.1", max_size=6))
def test_matches_are_those_of_re(pattern: str, text: str) -> None:
    try:
        expected = re.compile(pattern.replace("$", r"\Z")).fullmatch(text) is not None
    except re.error:  # an anchor that is repeated
        return
    assert LinearRegex(pattern).fullmatch(text) == expected


@for_each(
    "pattern, text, matches",
    [
        ("", "", True),
        ("", "a", False),
        ("(?i)Pay-[a-z]+", "PAY-tx", True),
        ("pay-.*", "pay-\n", False),
        (r"\t\(\]", "\t(]", True),
        ("[]a]", "]", True),
        ("[a-]", "-", True),
        (r"[\d_]+", "1_2", True),
        (r"[\]-]", "]", True),
        (r"\s\S", " x", True),
        ("grüße|größe", "größe", True),
        ("kafka-.*", "kafka-python", True),
        ("kafka-.*", "a kafka-python", False),
        (r"1\.2(\.3)?", "1.2.3", True),
        ("python|java|go|rust|js", "js", True),
        ("[^*+?|{]x[]*]", "ax]", True),
        (r"a\*\+\?\|\{", "a*+?|{", True),
        ("topic-[[:digit:]]+", "topic-12", True),
        ("topic-[[:digit:]]+", "topic-x", False),
        ("[^[:digit:]]", "7", False),
        ("[[:^digit:]x]+", "ax", True),
        ("[[:alpha:]_[:digit:]-]+", "a_1-", True),
        ("[[:upper:]]", "a", False),
        ("(?i)[[:upper:]]", "a", True),
        ("(?i)[[:^upper:]]", "a", False),
        ("[[:digit]+", "[:dgit", True),
        ("(?i)[a-z]", "ß", False),
        ("[:digit:]+", ":digt", True),
    ],
)
def test_details(pattern: str, text: str, matches: bool) -> None:
    assert LinearRegex(pattern).fullmatch(text) is matches


@for_each(
    "pattern",
    ["(", ")", "a)", "[", "[a", "*", "a**", "a{", "a{x}", "a{2,1}", "a{1001}", "\\", r"\1", r"\b", "(?=a)", "(?P<n>a)",
     "[b-a]", "[[:nothing:]]", "[[::]]", "[[:Digit:]]", r"\pL", r"\x41", r"\Qa\E", r"a\z",
     "a" * 1001, "(" * 51 + ")" * 51, "(a{1000}){1000}"],
)  # fmt: skip
def test_malformed_or_too_large_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        LinearRegex(pattern)


@for_each("pattern", ["a" * 98, "(a?){20}", "(?:a|b){14}"])
def test_states_are_limited(pattern: str) -> None:
    LinearRegex(pattern, 100)
    with pytest.raises(PatternError, match="needs more than 50 states"):
        LinearRegex(pattern, 50)


@given(st.text("ab.*+?|()[]{}\\^$1,", max_size=12))
def test_any_text_is_compiled_or_refused(pattern: str) -> None:
    with contextlib.suppress(PatternError):
        LinearRegex(pattern).fullmatch("ab1")


def test_a_pattern_that_is_exponential_for_re_is_not() -> None:
    regex = LinearRegex("(a|a)*(a|aa)*(a*)*b")
    assert not regex.fullmatch("a")
    once, twice = (steps(lambda text="a" * length: regex.fullmatch(text)) for length in (1000, 2000))  # type: ignore[misc]
    assert twice < 2.1 * once


@for_each("name", ["alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print",
                                  "punct", "space", "upper", "word", "xdigit"])  # fmt: skip
@for_each("form", ["[[:{}:]]", "[[:^{}:]]", "(?i)[[:{}:]]", "[^[:{}:]b]"])
def test_posix_classes_are_those_of_re2(name: str, form: str) -> None:
    re2 = pytest.importorskip("re2")
    pattern = form.format(name)
    expected, actual = re2.compile(pattern), LinearRegex(pattern)
    for number in (*range(256), 0x2028, 0x3000, 0xFF11):
        char = chr(number)
        assert actual.fullmatch(char) is (expected.fullmatch(char) is not None), repr(char)


@for_each("pattern", ["[[:digit:]]", "[a[bc]]", "[a-z&&[^b]]", "[a&&b]"])
def test_classes_that_java_reads_otherwise_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="classes within classes"):
        LinearRegex(pattern, java=True)
    assert LinearRegex(r"[a\[\]]", java=True).fullmatch("[")
