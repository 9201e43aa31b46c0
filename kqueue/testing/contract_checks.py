"""How a plugin is held against its contract: a table of promises, tried one by one in this process.
`isolation` does it in another.
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
_SILENCE = "it prints nothing to standard output, which is the program's"
_HERE = str(Path(__file__).parent) + os.sep
_NOT_ITS = (_HERE, "<frozen importlib")


class ContractTrial(Generic[P]):
    """A plugin under one check. `options` are what the checker was called with, `folder` is empty
    and this check's own.
    """

    def __init__(self, plugin: P, options: Mapping[str, Any], folder: str, note: Note) -> None:
        self.plugin = plugin
        self.options = options
        self.folder = folder
        self._note = note
        self._raised: list[tuple[BaseException, str]] = []

    def ask(self, what: str, run: Callable[[], T]) -> T:
        """The result of `run`, a call of the plugin; `what` says which call with which input,
        should it raise, hang or die.
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
        """What was asked when the plugin raised this."""
        return next((what for raised, what in self._raised if raised is error), "it")


class Check(NamedTuple):
    """One promise, as a sentence about the plugin, and what tries it: raises AssertionError with
    what was found instead.
    """

    promise: str
    run: Callable[[ContractTrial[Any]], None]


class Checks(NamedTuple):
    """All promises of one contract, picklable. `noun`: what such a plugin is called."""

    noun: str
    rows: tuple[Check, ...]


class ContractFailure(NamedTuple):
    """The promise that was broken, and what the plugin did."""

    promise: str
    what: str


def same(what: str, found: object, expected: object) -> None:
    """Raises AssertionError: `found` is something else than `expected`, or of another type; `what`
    says what gave it.
    """
    assert found == expected, f"{what} gave {found!r:.200}, expected {expected!r:.200}"
    assert type(found) is type(expected), (
        f"{what} gave {type(found).__name__} {found!r:.200}, expected {type(expected).__name__}"
    )


def raises(kind: type[BaseException], what: str, run: Callable[[], object]) -> None:
    """Raises AssertionError: `run` did not raise `kind`; `what` says what it is."""
    try:
        found = run()
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{what} raised {error!r:.200}, expected {kind.__name__}\n{where(error)}") from error
    raise AssertionError(f"{what} gave {found!r:.200}, expected {kind.__name__}")


def name_in(checks: Checks, plugin: object) -> str:
    """The name by which messages call the plugin: its own, and where it is written."""
    definition: Any = plugin if hasattr(plugin, "__qualname__") else type(plugin)
    try:
        name = name_of(plugin)
    except Exception:  # that it has none is for a check to say
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
    """Try all promises until one is broken. `printed` tells what has come out on standard output
    since it was last asked.
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
            return ContractFailure(check.promise, _told(error, trial))
        if output := printed():
            return ContractFailure(_SILENCE, f'in the check "{check.promise}" it printed {output!r:.200}')
    return None


def _told(error: BaseException, trial: ContractTrial[Any]) -> str:
    if isinstance(error, AssertionError) and _is_ours(error):
        return str(error)
    return f"{trial.asked_for(error)} raised {type(error).__name__}: {error!s:.500}\n{where(error)}"


def _is_ours(error: BaseException) -> bool:
    """Whether it was a checker that raised, and not the plugin."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(_HERE)


def where(error: BaseException) -> str:
    """The calls that led to `error`, the checkers' own left out."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_NOT_ITS)]
    return "".join(traceback.format_list(frames)).rstrip()


def sentence(name: str, failure: ContractFailure) -> str:
    """The message for whoever wrote the plugin."""
    return f'{name} does not keep its promise "{failure.promise}": {failure.what}'.rstrip()
