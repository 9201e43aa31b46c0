"""Principals: whom a connection authenticated as. Source: Kafka's KafkaPrincipal."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.base.errors import InvalidRequest

USER_TYPE = "User"


class Principal(NamedTuple):
    """A type, in practice `User`, and a name; equal only if both are, in exact case.

    `by_token`: authenticated by a delegation token; such a client may not create other tokens. It
    does not count when principals are compared.
    """

    type: str
    name: str
    by_token: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Principal) and self[:2] == other[:2]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:2])


ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")
"""The principal of every connection of a listener without authentication."""


def parse_principal(text: str) -> Principal:
    """Parse `Type:name`, e.g. ``User:ann`` or ``User:CN=ann,O=x``; the first colon separates.

    Raises: InvalidRequest: no type or no name.
    """
    type_, colon, name = text.partition(":")
    if not colon or not type_ or not name:
        raise InvalidRequest(f"expected a principal as Type:name, e.g. User:ann, found {text!r}")
    return Principal(type_, name)
