"""Checks of the arguments of calls that tests make. Each error names the parameter, says what it
takes and what was found.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from kqueue.base.names import did_you_mean
from kqueue.base.text import short_repr

CONFIGS = ("config", "configs", "topic_config", "topic_configs", "settings")
"""The names that other libraries give a dict of settings."""
EXAMPLE = 'cleanup_policy="compact"'


def check_kind(name: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Check the type of an argument. A bool is no number.

    Raises: TypeError: with `expected`, which says what the parameter takes.
    """
    is_bool = isinstance(value, bool) and bool not in (kinds if isinstance(kinds, tuple) else (kinds,))
    if is_bool or not isinstance(value, kinds):
        raise TypeError(f"{name}={short_repr(value)}: expected {expected}")


def check_mapping(name: str, value: object, expected: str) -> None:
    """Check that an argument is a dict or another mapping. Raises TypeError."""
    check_kind(name, value, Mapping, expected)


def check_list(name: str, value: object, expected: str) -> None:
    """Check that an argument is iterable, and neither text, bytes nor a mapping. Raises
    TypeError.
    """
    if isinstance(value, (str, bytes, bytearray, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name}={short_repr(value)}: expected {expected}")


def check_folder(name: str, value: object) -> None:
    """Check that an argument is the path of a folder, or None. Raises TypeError."""
    if value is not None:
        check_kind(name, value, (str, os.PathLike), "a folder, as text or a path")


def check_seconds(name: str, value: object) -> None:
    """Check that an argument is a time in seconds, 0 or more. Raises TypeError, ValueError."""
    expected = "a number of seconds, 0 or more"
    check_kind(name, value, (int, float), expected)
    assert isinstance(value, (int, float))
    if not value >= 0:
        raise ValueError(f"{name}={value}: expected {expected}")


def check_broker_id(call: str, id: object, brokers: Sequence[object]) -> None:
    """Check the node id of a broker of a cluster. Raises TypeError, ValueError."""
    expected = f"{call}: expected the node id of a broker, a number from 0 to {len(brokers) - 1}"
    if not isinstance(id, int) or isinstance(id, bool):
        raise TypeError(f"{expected}, found {short_repr(id)}")
    if not 0 <= id < len(brokers):
        raise ValueError(f"{expected}: there is no broker {id}")


def check_no_configs(call: str, keywords: Mapping[str, object]) -> None:
    """Check that settings are given as keywords, and not as one dict.

    Raises: TypeError: shows the keywords that are meant.
    """
    for keyword in CONFIGS:
        if keyword in keywords:
            value: Any = keywords[keyword]
            names = list(value) if isinstance(value, Mapping) else []
            are_named = names and all(isinstance(name, str) for name in names)
            example = ", ".join(f"{name.replace('.', '_')}={value[name]!r}" for name in names) if are_named else ""
            raise TypeError(f"{call}() has no argument {keyword!r}: settings are keywords, write {example or EXAMPLE}")


def check_keywords(call: str, keywords: Iterable[str], known: Iterable[str], meant: Mapping[str, str]) -> None:
    """Check that a call has these keyword arguments.

    Args: meant: what other libraries call a parameter -> its name here.
    Raises: TypeError: names the nearest parameter.
    """
    names = list(known)
    for keyword in keywords:
        if keyword not in names:
            hint = f"; did you mean {meant[keyword]!r}?" if keyword in meant else did_you_mean(keyword, names)
            raise TypeError(f"{call}() has no argument {keyword!r}{hint} (there are: {', '.join(names)})")


def near(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is most like `name`; None: none is."""
    matches = get_close_matches(name, names, 1, 0.8)
    return matches[0] if matches else None
