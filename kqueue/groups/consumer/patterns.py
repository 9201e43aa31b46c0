"""Patterns of topic names, matched in linear time: a client can't hang the broker with one.

RE2 is the dialect of Kafka's broker; `google-re2` brings it. Without that package the subset of
`base.linear_regex` is supported, and any other pattern is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kqueue.base.extras import install_hint
from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.consumer.member import TopicFilter, every_topic
from kqueue.groups.errors import InvalidRegularExpression

PATTERN_LENGTH_MAX = 1000
MEMORY_BYTES_MAX = 1024 * 1024
NAMES_PER_YIELD = 50
Matcher = Callable[[str], bool]


def compile_pattern(pattern: str) -> Matcher:
    """Return a function that tells whether a whole topic name matches.

    Raises: InvalidRegularExpression: the pattern is malformed, too long or not supported.
    """
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex has at most {PATTERN_LENGTH_MAX} characters, found {len(pattern)}."
        )
    try:
        return _re2_matcher(pattern)
    except ImportError:
        pass
    from kqueue.base.linear_regex import LinearRegex, PatternError  # on use: most groups have none

    try:
        return LinearRegex(pattern).fullmatch
    except PatternError as error:
        raise _invalid(pattern, f"{error} (the broker has a subset of RE2 only: {install_hint('re2')})") from None


def matching_topics(
    pattern: str, names: Sequence[str], visible: TopicFilter = every_topic
) -> SlicedWork[frozenset[str]]:
    """Return the names that match and are visible. Raises: InvalidRegularExpression."""
    matches = compile_pattern(pattern)
    topic_names: set[str] = set()
    for position in range(0, len(names), NAMES_PER_YIELD):
        matching = [name for name in names[position : position + NAMES_PER_YIELD] if matches(name)]
        if matching:
            topic_names.update(visible(matching))
        yield None
    return frozenset(topic_names)


def _re2_matcher(pattern: str) -> Matcher:
    """Raises: ImportError: the package is not installed. InvalidRegularExpression."""
    import re2  # type: ignore[import-untyped,import-not-found,unused-ignore]

    options: Any = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MEMORY_BYTES_MAX
    try:
        compiled: Any = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        raise _invalid(pattern, reason.decode() if isinstance(reason, bytes) else str(reason)) from None
    return lambda name: compiled.fullmatch(name) is not None


def _invalid(pattern: str, reason: str) -> InvalidRegularExpression:
    return InvalidRegularExpression(f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}.")
