"""The JSON that members of the group exchange, and the choice of the writer among them.

What other members sent is read tolerantly: a member whose identity can't be read is not eligible,
and unknown members of an object are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kqueue.base.errors import CorruptData
from kqueue.base.text import short_repr

PROTOCOL_TYPE, PROTOCOL_NAME = "sr", "v0"
IDENTITY_VERSION = 1
NO_ERROR, DUPLICATE_URLS = 0, 1
MESSAGE_BYTES_MAX = 64 * 1024
HOST_CHARACTERS_MAX = 1_000
SCHEMES = ("http", "https")


class MalformedGroupMessage(CorruptData):
    """Bytes of another member that are not what the protocol says."""


class RegistryIdentity(NamedTuple):
    """A registry as others reach it. `is_eligible`: whether it may write."""

    host: str
    port: int
    is_eligible: bool = True
    scheme: str = "http"

    @property
    def url(self) -> str:
        """``http://host:port``, by which members are compared."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @classmethod
    def of_url(cls, url: str, *, is_eligible: bool = True) -> RegistryIdentity:
        """Return the identity of a registry at a URL without a path. Raises ValueError."""
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise ValueError(f"{url!r}: expected http://HOST:PORT or https://HOST:PORT")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.hostname, port, is_eligible, parts.scheme)


class LeaderAssignment(NamedTuple):
    """What the leader of the group tells every member.

    Attributes:
        error: NO_ERROR, or DUPLICATE_URLS, with which none of them writes.
        member_id, identity: of the writer; None: no member is eligible.
    """

    error: int
    member_id: str | None
    identity: RegistryIdentity | None


def encode_identity(identity: RegistryIdentity) -> bytes:
    """Return the metadata of a member."""
    return json.dumps(_identity_object(identity)).encode()


def decode_identity(data: bytes) -> RegistryIdentity:
    """Return the identity in a member's metadata. Raises: MalformedGroupMessage."""
    return _identity(_object(data))


def encode_assignment(assignment: LeaderAssignment) -> bytes:
    """Return what every member is assigned."""
    fields: dict[str, Any] = {"version": IDENTITY_VERSION, "error": assignment.error}
    if assignment.member_id is not None and assignment.identity is not None:
        fields |= {"master": assignment.member_id, "master_identity": _identity_object(assignment.identity)}
    return json.dumps(fields).encode()


def decode_assignment(data: bytes) -> LeaderAssignment:
    """Return an assignment. A writer that is not eligible, which Karapace may name, is none.

    Raises: MalformedGroupMessage.
    """
    fields = _object(data)
    error = fields.get("error", NO_ERROR)
    if type(error) is not int:
        raise MalformedGroupMessage(f"the assignment's error is {short_repr(error)}, expected a number")
    member_id, identity = fields.get("master"), fields.get("master_identity")
    if error or not isinstance(member_id, str) or not isinstance(identity, dict):
        return LeaderAssignment(error, None, None)
    writer = _identity(identity)
    return LeaderAssignment(error, member_id, writer) if writer.is_eligible else LeaderAssignment(error, None, None)


def choose_leader(members: Mapping[str, bytes]) -> LeaderAssignment:
    """Return the assignment for a group: the eligible member with the first URL in order writes.

    Args:
        members: the metadata of each by member id.
    """
    identities: dict[str, RegistryIdentity] = {}
    for member_id, metadata in members.items():
        try:
            identities[member_id] = decode_identity(metadata)
        except MalformedGroupMessage:
            continue  # nobody could forward requests to it
    if len({identity.url for identity in identities.values()}) < len(identities):
        return LeaderAssignment(DUPLICATE_URLS, None, None)
    eligible = {member_id: identity for member_id, identity in identities.items() if identity.is_eligible}
    if not eligible:
        return LeaderAssignment(NO_ERROR, None, None)
    first = min(eligible, key=lambda member_id: eligible[member_id].url)
    return LeaderAssignment(NO_ERROR, first, eligible[first])


def _identity_object(identity: RegistryIdentity) -> dict[str, Any]:
    return {
        "version": IDENTITY_VERSION,
        "host": identity.host,
        "port": identity.port,
        "master_eligibility": identity.is_eligible,
        "scheme": identity.scheme,
    }


def _identity(fields: Mapping[str, Any]) -> RegistryIdentity:
    host, port = fields.get("host"), fields.get("port")
    eligible, scheme = fields.get("master_eligibility", True), fields.get("scheme", "http")
    if (
        not isinstance(host, str)
        or not 0 < len(host) <= HOST_CHARACTERS_MAX
        or not host.isprintable()
        or any(character in "/?#@\\ " for character in host)
        or type(port) is not int
        or not 0 < port < 65536
        or type(eligible) is not bool
        or scheme not in SCHEMES
    ):
        raise MalformedGroupMessage(
            f"{short_repr(dict(fields))} is no identity of a registry: expected host, port, scheme and "
            "master_eligibility"
        )
    return RegistryIdentity(host, port, eligible, scheme)


def _object(data: bytes) -> dict[str, Any]:
    if len(data) > MESSAGE_BYTES_MAX:
        raise MalformedGroupMessage(f"a member sent {len(data):,} bytes, expected at most {MESSAGE_BYTES_MAX:,}")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise MalformedGroupMessage(f"a member sent {short_repr(data)}, expected an object in JSON")
    return value
