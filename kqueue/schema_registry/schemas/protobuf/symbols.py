"""The messages and enums of a file and its imports, by full name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kqueue.schema_registry.schemas.protobuf.model import ProtoEnum, ProtoFile, ProtoMessage


class ProtoSymbol(NamedTuple):
    """A message or enum.

    Attributes:
        name: with its package, without a dot before it.
        package: of its file; empty: none.
    """

    name: str
    package: str
    declaration: ProtoMessage | ProtoEnum

    @property
    def local_name(self) -> str:
        """The name within the package."""
        return self.name.removeprefix(f"{self.package}.") if self.package else self.name


class SymbolTable:
    """Finds what the name of a type means in a scope."""

    def __init__(self) -> None:
        self._symbols: dict[str, ProtoSymbol] = {}

    def add(self, file: ProtoFile) -> None:
        """Enter the types of a file."""
        for name, declaration in declarations(file):
            self._symbols.setdefault(name, ProtoSymbol(name, file.package, declaration))

    def find(self, name: str, scope: str) -> ProtoSymbol | None:
        """Return the type of a name; None: there is none.

        Args: scope: the full name of the message, or the package, in which it is named.
        """
        if name.startswith("."):
            return self._symbols.get(name[1:])
        while scope:
            found = self._symbols.get(f"{scope}.{name}")
            if found is not None:
                return found
            scope = scope.rpartition(".")[0]
        return self._symbols.get(name)

    def full_name(self, name: str, scope: str) -> str:
        """Return the full name, a dot before it; a name that means nothing stays as it is."""
        found = self.find(name, scope)
        return name if found is None else f".{found.name}"


def declarations(file: ProtoFile) -> Iterator[tuple[str, ProtoMessage | ProtoEnum]]:
    """Yield all messages, groups and enums of a file with their full names, outer before inner."""
    top: list[ProtoMessage | ProtoEnum] = [*file.messages, *file.enums]
    top += [group.message for one in file.extends for group in one.groups]
    prefix = f"{file.package}." if file.package else ""
    left = [(f"{prefix}{one.name}", one) for one in top]
    while left:
        name, declaration = left.pop()
        yield name, declaration
        if isinstance(declaration, ProtoMessage):
            inner: list[ProtoMessage | ProtoEnum] = [*declaration.messages, *declaration.enums]
            groups = [*declaration.groups, *(group for one in declaration.oneofs for group in one.groups)]
            groups += [group for one in declaration.extends for group in one.groups]
            inner += [group.message for group in groups]
            left += [(f"{name}.{one.name}", one) for one in inner]
