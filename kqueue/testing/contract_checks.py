"""Runs the checks of a plugin contract in this process, one after the other.

`isolation` runs them in a process of their own.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from kqueue.base.registry import name_of

P = TypeVar("P")
T = TypeVar("T")
Note = Callable[[str, str], None]
_SILENCE = "it prints nothing to standard output"
_HERE = str(Path(__file__).parent) + os.sep
_INTERNAL_FILES = (_HERE, "<frozen importlib")


class ContractTrial(Generic[P]):
    """A plugin during one check.

    Args:
        options: the options that the checker was called with.
        folder: an empty folder that only this check uses.
        note: records progress as (kind, text), so that a crash can be attributed to a call.
    """

    def __init__(self, plugin: P, options: Mapping[str, Any], folder: str, note: Note) -> None:
        self.plugin = plugin
        self.options = options
        self.folder = folder
        self._note = note
        self._raised: list[tuple[BaseException, str]] = []

    def ask(self, what: str, run: Callable[[], T]) -> T:
        """Return the result of `run`, one call of the plugin.

        Args:
            what: describes the call and its input, for messages if it raises, hangs or crashes.
        """
        self._note("asked", what)
        try:
            result = run()
        except BaseException as error:
            self._raised.append((error, what))
            raise
        self._note("asked", "")
        return result

    def asked_for(self, error: BaseException) -> str:
        """Return the description of the call that raised `error`."""
        return next((what for raised, what in self._raised if raised is error), "it")


class Check(NamedTuple):
    """One rule of a contract, as a sentence about the plugin, and the function that checks it.

    `run` raises AssertionError with the expected and the actual result.
    """

    promise: str
    run: Callable[[ContractTrial[Any]], None]


class Checks(NamedTuple):
    """All checks of one contract, picklable; `noun` is the word for such a plugin."""

    noun: str
    rows: tuple[Check, ...]


class ContractFailure(NamedTuple):
    """The check that failed, and what the plugin did."""

    promise: str
    what: str


def same(what: str, actual: object, expected: object) -> None:
    """Check that `actual` equals `expected` and has the same type.

    Args:
        what: describes where `actual` comes from.
    Raises: AssertionError: value or type differ.
    """
    assert actual == expected, f"{what} gave {actual!r:.200}, expected {expected!r:.200}"
    assert type(actual) is type(expected), (
        f"{what} gave {type(actual).__name__} {actual!r:.200}, expected {type(expected).__name__}"
    )


def raises(kind: type[BaseException], what: str, run: Callable[[], object]) -> None:
    """Check that `run` raises `kind`.

    Args:
        what: describes the call.
    Raises: AssertionError: `run` returned, or raised another error.
    """
    try:
        result = run()
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{what} raised {error!r:.200}, expected {kind.__name__}\n{where(error)}") from error
    raise AssertionError(f"{what} gave {result!r:.200}, expected {kind.__name__}")


def name_in(checks: Checks, plugin: object) -> str:
    """Return the plugin's name for messages: its own name and where it is defined."""
    definition: Any = plugin if hasattr(plugin, "__qualname__") else type(plugin)
    try:
        name = name_of(plugin)
    except Exception:  # a check reports a missing name
        name = None
    return f"{checks.noun} {(name or definition.__qualname__)!r} ({definition.__module__}.{definition.__qualname__})"


def first_failure(
    checks: Checks,
    plugin: object,
    options: Mapping[str, Any],
    folder: Path,
    note: Note,
    printed: Callable[[], str] = str,
) -> ContractFailure | None:
    """Run all checks until one fails; return the failure, or None.

    Args:
        folder: each check gets a new folder inside it.
        note: records progress as (kind, text).
        printed: returns what was written to standard output since its last call.
    """
    for number, check in enumerate(checks.rows):
        own = folder / str(number)
        own.mkdir()
        note("check", check.promise)
        trial = ContractTrial(plugin, options, str(own), note)
        try:
            check.run(trial)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return ContractFailure(check.promise, _describe(error, trial))
        if output := printed():
            return ContractFailure(_SILENCE, f'in the check "{check.promise}" it printed {output!r:.200}')
    return None


def _describe(error: BaseException, trial: ContractTrial[Any]) -> str:
    if isinstance(error, AssertionError) and _is_ours(error):
        return str(error)
    return f"{trial.asked_for(error)} raised {type(error).__name__}: {error!s:.500}\n{where(error)}"


def _is_ours(error: BaseException) -> bool:
    """Whether a checker raised the error, and not the plugin."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(_HERE)


def where(error: BaseException) -> str:
    """Return the traceback of `error` without the frames of the checkers."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_INTERNAL_FILES)
    ]
    return "".join(traceback.format_list(frames)).rstrip()


def sentence(name: str, failure: ContractFailure) -> str:
    """Return the failure as one message for the author of the plugin."""
    return f'{name} fails the check "{failure.promise}": {failure.what}'.rstrip()
