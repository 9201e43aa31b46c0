"""Client quotas: whom they bound, what they bound, and which of them holds for a client.

A quota belongs to a user, a client id, both, or an address; the name None is the default of those
that have none of their own. Source: Kafka's ClientQuotaEntity, ClientQuotaControlManager,
DefaultQuotaCallback (KIP-13, KIP-124, KIP-257, KIP-546, KIP-599, KIP-612).
"""

from __future__ import annotations

import enum
import ipaddress
import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kqueue.base.errors import CorruptData, InvalidRequest, UnsupportedVersion
from kqueue.base.settings import INT_MAX, LONG_MAX

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
CLIENT_QUOTAS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
WHOLE_MAX: dict[str, int] = {
    PRODUCER_BYTE_RATE: LONG_MAX,
    CONSUMER_BYTE_RATE: LONG_MAX,
    CONNECTION_CREATION_RATE: INT_MAX,
}
"""Quotas that are whole numbers, and their highest value; the others may have a fraction."""
FRACTION_MAX = 1e-6
_IDS = uuid.UUID("7a0a4fd0-3a5c-4c55-8a3f-2f1f0d4b9b1e")
"""Namespace of the ids of entities."""
CLIENT_ID_KEPT_MAX = 256
"""Longer client ids are kept as a digest."""

Parts = tuple[tuple[str, str | None], ...]
Values = Mapping[str, float]


class QuotaEntity(NamedTuple):
    """Whom a quota bounds: pairs of a type and a name, None the default, in the order of the types.

    Make one by `entity_of`, which checks it.
    """

    parts: Parts

    def __str__(self) -> str:
        return ", ".join(f"{kind} {'<default>' if name is None else repr(name)}" for kind, name in self.parts)

    @property
    def id(self) -> str:
        """A UUID that is the same for equal entities."""
        return str(uuid.uuid5(_IDS, json.dumps(self.parts)))


def entity_of(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return an entity. Raises: InvalidRequest, as Kafka does."""
    names: dict[str, str | None] = {}
    for kind, name in parts:
        if kind in names:
            raise InvalidRequest(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in ENTITY_TYPES:
            raise InvalidRequest(f"Unhandled client quota entity type: {kind:.200}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
        names[kind] = name
    if not names:
        raise InvalidRequest("Invalid empty client quota entity")
    if IP in names:
        if len(names) > 1:
            raise InvalidRequest("a quota of an ip can't be one of a user or client-id too")
        if names[IP] is not None:
            names[IP] = _address(names[IP] or "")
    return QuotaEntity(tuple((kind, names[kind]) for kind in ENTITY_TYPES if kind in names))


def _address(text: str) -> str:
    """Return an address as connections have it. Kafka looks up names too, which would block."""
    try:
        return str(ipaddress.ip_address(text)).removeprefix("::ffff:")
    except ValueError:
        raise InvalidRequest(f"{text:.200} is not a valid IP: expected an address such as 192.0.2.7") from None


def check_value(entity: QuotaEntity, key: str, value: float) -> None:
    """Raise InvalidRequest if the entity can't have this quota."""
    allowed = (CONNECTION_CREATION_RATE,) if entity.parts[0][0] == IP else CLIENT_QUOTAS
    if key not in allowed:
        raise InvalidRequest(f"Invalid configuration key {key:.200}: expected {', '.join(allowed)}")
    if not value > 0 or math.isinf(value):
        raise InvalidRequest(f"Quota {key} must be greater than 0, and finite")
    highest = WHOLE_MAX.get(key)
    if highest is None:
        return
    if value > highest:
        raise InvalidRequest(f"Proposed value for {key} is too large: expected at most {highest}")
    if value % 1.0 > FRACTION_MAX:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


def to_json(entity: QuotaEntity, values: Values) -> str:
    """Return the quotas of an entity as they are stored."""
    return json.dumps({"entity": dict(entity.parts), "quotas": dict(values)})


def from_json(value: bytes) -> tuple[QuotaEntity, dict[str, float]]:
    """Parse stored quotas. Raises: CorruptData."""
    try:
        row = json.loads(value)
        entity = entity_of((kind, None if name is None else _text(name)) for kind, name in row["entity"].items())
        values = {str(key): float(bound) for key, bound in row["quotas"].items()}
        for key, bound in values.items():
            check_value(entity, key, bound)
    except (ValueError, KeyError, TypeError, AttributeError, InvalidRequest) as error:
        raise CorruptData(f"the stored quotas {value[:200]!r} can't be read: {error!r:.200}") from error
    return entity, values


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a name, found {value!r:.200}")
    return value


class MatchType(enum.IntEnum):
    """The ways in which a component of a filter matches."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaFilter(NamedTuple):
    """A filter of entities: `names` by type; the types of `any` match whatever name.

    `strict`: only entities that have no other type.
    """

    names: Mapping[str, str | None]
    any: frozenset[str]
    strict: bool

    def matches(self, entity: QuotaEntity) -> bool:
        """Return whether the filter finds the entity."""
        parts = dict(entity.parts)
        if self.strict and len(parts) != len(self.names) + len(self.any):
            return False
        return self.any <= parts.keys() and all(
            kind in parts and parts[kind] == name for kind, name in self.names.items()
        )


def filter_of(components: Iterable[tuple[str, int, str | None]], *, strict: bool) -> QuotaFilter:
    """Return a filter of entity type, match type and name. Raises: InvalidRequest,
    UnsupportedVersion, as Kafka does.
    """
    names: dict[str, str | None] = {}
    kinds: set[str] = set()
    for kind, match_type, name in components:
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in names or kind in kinds:
            raise InvalidRequest(f"Entity type {kind:.200} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise UnsupportedVersion(f"Custom entity type {kind:.200} is not supported")
        if match_type == MatchType.EXACT:
            if name is None:
                raise InvalidRequest("an exact match needs a name")
            names[kind] = name
        elif match_type not in (MatchType.DEFAULT, MatchType.ANY):
            raise InvalidRequest(f"Unknown match type {match_type}")
        elif name is not None:
            raise InvalidRequest("a match of the default, or of any name, has no name")
        elif match_type == MatchType.DEFAULT:
            names[kind] = None
        else:
            kinds.add(kind)
    types = names.keys() | kinds
    if IP in types and len(types) > 1:
        raise InvalidRequest("a filter of ips can't be one of users or client ids too")
    return QuotaFilter(names, frozenset(kinds), strict)


class Limit(NamedTuple):
    """A quota that holds for a client. `sharers`: user and client id, None: any; all clients of the
    same ones share what `bound` allows.
    """

    bound: float
    sharers: tuple[str | None, str | bytes | None]


class QuotaTable:
    """All quotas of a cluster, and which of them holds for whom."""

    def __init__(self) -> None:
        self._values: dict[Parts, dict[str, float]] = {}

    @property
    def bounds_clients(self) -> bool:
        """Whether there are quotas of users or client ids."""
        return any(parts[0][0] != IP for parts in self._values)

    @property
    def bounds_addresses(self) -> bool:
        """Whether there are quotas of addresses."""
        return any(parts[0][0] == IP for parts in self._values)

    def __iter__(self) -> Iterator[tuple[QuotaEntity, Values]]:
        return ((QuotaEntity(parts), values) for parts, values in self._values.items())

    def get(self, entity: QuotaEntity) -> Values:
        """Return the entity's own quotas."""
        return self._values.get(entity.parts, {})

    def set(self, entity: QuotaEntity, values: Values) -> None:
        """Replace the quotas of an entity; none: it has no more."""
        if values:
            self._values[entity.parts] = dict(values)
        else:
            self._values.pop(entity.parts, None)

    def client_limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """Return the quota that holds for a client, the most specific of all; None: no bound."""
        users, clients = ((USER, user), (USER, None)), ((CLIENT_ID, client_id), (CLIENT_ID, None))
        kept = kept_client_id(client_id)
        for of_user in users:
            for parts, sharers in (
                ((of_user, clients[0]), (user, kept)),
                ((of_user, clients[1]), (user, kept)),
                ((of_user,), (user, None)),
            ):
                bound = self._bound(parts, key)
                if bound is not None:
                    return Limit(bound, sharers)
        for of_client in clients:
            bound = self._bound((of_client,), key)
            if bound is not None:
                return Limit(bound, (None, kept))
        return None

    def address_limit(self, address: str) -> float | None:
        """Return how many connections an address may make per second; None: no bound."""
        bound = self._bound(((IP, address),), CONNECTION_CREATION_RATE)
        return self._bound(((IP, None),), CONNECTION_CREATION_RATE) if bound is None else bound

    def _bound(self, parts: Parts, key: str) -> float | None:
        values = self._values.get(parts)
        return None if values is None else values.get(key)


def kept_client_id(client_id: str) -> str | bytes:
    """Return what stands for a client id where it is kept: itself, or its digest if it is long."""
    if len(client_id) <= CLIENT_ID_KEPT_MAX:
        return client_id
    import hashlib  # on use: it loads OpenSSL

    return hashlib.sha256(client_id.encode(errors="surrogatepass")).digest()
