"""Guard around a plugin's assignor: every error fails one assignment, with the plugin's name."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from kqueue.base.errors import PluginError
from kqueue.base.registry import RegistryEntry
from kqueue.groups.assignors.contract import Assignor, AssignorFactory, AssignorMember, AssignorTopic, AssignorWork


class GuardedAssignorFactory:
    """Makes assignors that raise PluginError for all that they do beside the contract."""

    def __init__(self, factory: AssignorFactory, entry: RegistryEntry[AssignorFactory]) -> None:
        """Raises PluginError: `factory` can't be called."""
        self.title = entry.title("assignor")
        self._factory = factory
        if not callable(factory):
            raise PluginError(
                f"{self.title}: expected a class, or a callable without arguments, found {factory!r:.100}"
            )

    def __call__(self) -> Assignor:
        try:
            assignor = self._factory()
        except Exception as error:
            raise PluginError(f"{self.title} could not be made", detail=f"{type(error).__name__}: {error}") from error
        if not callable(getattr(assignor, "assign", None)):
            raise PluginError(
                f"{self.title}: expected an assignor, found {type(assignor).__name__} without the method assign"
            )
        return GuardedAssignor(assignor, self.title)


class GuardedAssignor:
    """See `contract.Assignor`. The result is checked by `result_check`, as that of built-ins."""

    def __init__(self, assignor: Assignor, title: str) -> None:
        self._assignor = assignor
        self._title = title

    def assign(self, members: Sequence[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> AssignorWork:
        """Raises PluginError: the plugin raised, or `assign` is no generator."""
        try:
            work = self._assignor.assign(members, topics)
            if not isinstance(work, Generator):
                raise PluginError(
                    f"{self._title} broke its contract: assign returned {type(work).__name__}, expected a generator "
                    "that returns the assignment"
                )
            return (yield from work)
        except PluginError:
            raise
        except Exception as error:
            raise PluginError(f"{self._title} could not assign", detail=f"{type(error).__name__}: {error}") from error
