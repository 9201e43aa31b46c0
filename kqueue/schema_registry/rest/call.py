"""One request to the API, as handlers see it, and the tables of handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from kqueue.schema_registry.catalog import Catalog, Deleted
from kqueue.schema_registry.errors import BAD_REQUEST, FORBIDDEN, PATH_NOT_FOUND, RegistryError
from kqueue.schema_registry.limits import ID_MAX, VERSION_MAX
from kqueue.schema_registry.registry import Registry, SchemaRequest
from kqueue.schema_registry.rest.contract import NO_CLUSTER, Authorizer, ClusterIds, Operation
from kqueue.schema_registry.schema_content import SchemaContent, parse_content
from kqueue.schema_registry.state.registry_state import Scope, scope_of
from kqueue.schema_registry.state.schema_version import SchemaVersion
from kqueue.schema_registry.subject_names import SubjectName, checked_scope, checked_subject, parse_subject

T = TypeVar("T")
UNKNOWN_MEMBERS_HEADER = "confluent-accept-unknown-properties"
"""Clients that send it with `true` skip members that they do not know; others may fail at them."""


class PlainText(NamedTuple):
    """An answer that is a text itself, not JSON that holds it."""

    text: str


class Call:
    """A request, read and authenticated.

    Attributes:
        catalog, registry: what it asks.
        cluster: whose registry it is.
        query: the first value of each name, decoded.
        user: None: no user is authenticated.
    Args:
        path: the variables of the path, still percent-encoded.
        query: names and values, decoded.
        headers: by their names in lower case.
        body: the parsed JSON; None: there is no body.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        path: Mapping[str, str] | None = None,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        body: object = None,
        user: str | None = None,
        authorizer: Authorizer | None = None,
        cluster: ClusterIds = NO_CLUSTER,
    ) -> None:
        self.registry = registry
        self.catalog: Catalog = registry.catalog
        self.cluster = cluster
        self.query: dict[str, str] = {}
        for name, value in query:
            self.query.setdefault(name, value)
        self._query = query
        self.user = user
        self._path = path or {}
        self._headers = headers or {}
        self._body = body
        self._authorizer = authorizer

    # --- what the user may do

    def is_allowed(self, operation: Operation, subject: SubjectName | None) -> bool:
        """Whether the user may do this. `subject`: None: the registry as a whole."""
        if self._authorizer is None:
            return True
        return self._authorizer.is_allowed(self.user, operation, None if subject is None else str(subject))

    def check_allowed(self, operation: Operation, subject: SubjectName | None) -> None:
        """Raise RegistryError unless the user may do this."""
        if not self.is_allowed(operation, subject):
            resource = "the registry" if subject is None else f"subject {str(subject)!r}"
            raise RegistryError(FORBIDDEN, operation=operation.value, resource=resource)

    def readable(self, versions: Iterable[SchemaVersion]) -> Iterator[SchemaVersion]:
        """Yield the versions whose subjects the user may read."""
        allowed: dict[SubjectName, bool] = {}
        for version in versions:
            if version.subject not in allowed:
                allowed[version.subject] = self.is_allowed(Operation.READ, version.subject)
            if allowed[version.subject]:
                yield version

    # --- the path

    def subject(self, operation: Operation) -> SubjectName:
        """Return the subject of the path, that of an alias instead of the alias. Who registers must
        be allowed to, and so on.

        Raises: RegistryError: the name is invalid, or the user is not allowed to do this.
        """
        name = checked_subject(unquote(self._path["subject"]), self.registry.limits)
        name = checked_subject(str(self.catalog.subject_of_alias(name)), self.registry.limits)
        self.check_allowed(operation, name)
        return name

    def scope(self, operation: Operation) -> Scope:
        """Return what a config or mode of the path is for. Raises: as `subject`."""
        text = unquote(self._path.get("subject", ""))
        scope = scope_of(checked_scope(text, self.registry.limits)) if text else None
        self.check_allowed(operation, scope)
        return scope

    def path_text(self, name: str) -> str:
        """Return a variable of the path, decoded."""
        return unquote(self._path[name])

    def schema_id(self) -> int:
        """Return the id of the path. Raises: RegistryError: it is no id: nothing is there."""
        text = self.path_text("id")
        if text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= ID_MAX:
            return int(text)
        raise RegistryError(PATH_NOT_FOUND, path=f"/schemas/ids/{text[:100]}")

    # --- the query

    def flag(self, name: str) -> bool:
        """Return whether the query says that something is true; left out: False."""
        return self.query.get(name, "").lower() == "true"

    def query_values(self, name: str) -> list[str]:
        """Return all values of a name of the query."""
        return [value for key, value in self._query if key == name]

    def deleted(self) -> Deleted:
        """Return which versions the query asks for."""
        if self.flag("deletedOnly"):
            return Deleted.ONLY
        return Deleted.INCLUDED if self.flag("deleted") else Deleted.EXCLUDED

    def query_subject(self) -> SubjectName | None:
        """Return the subject that the query names; None: none."""
        text = self.query.get("subject", "")
        return parse_subject(text) if text else None

    def format(self) -> str:
        """Return the format of texts that the query asks for; "": as they are stored."""
        return self.query.get("format", "").lower()

    def page(self, items: Iterable[T], maximum: int | None = None) -> list[T]:
        """Return what `offset` and `limit` leave of a list.

        Args: maximum: how many at most, also if the limit is higher or negative; None: as many as
            names are listed.
        """
        offset, limit = max(self._number("offset", 0), 0), self._number("limit", -1)
        maximum = self.registry.limits.names_listed_max if maximum is None else maximum
        return list(islice(items, offset, offset + (maximum if limit < 0 else min(limit, maximum))))

    def _number(self, name: str, default: int) -> int:
        text = self.query.get(name, "")
        if not text:
            return default
        try:
            return max(-1, min(int(text[:20]), VERSION_MAX))
        except ValueError:
            raise RegistryError(BAD_REQUEST, reason=f"{name} is {text[:100]!r}; expected a number.") from None

    # --- the body

    def members(self) -> Mapping[str, Any]:
        """Return the members of the body. Raises: RegistryError: it is no JSON object."""
        if not isinstance(self._body, dict):
            raise RegistryError(BAD_REQUEST, reason="The body must be a JSON object.")
        return self._body

    def content(self, subject: SubjectName) -> SchemaContent:
        """Return the schema of the body, for a subject.

        Raises: RegistryError. The user must be allowed to read what it refers to, whose texts
            would otherwise come with it.
        """
        content = parse_content(self.members(), self.registry.limits)
        for reference in content.references:
            self.check_allowed(Operation.READ, parse_subject(reference.subject, subject.context))
        return content

    def schema_request(self, subject: SubjectName) -> SchemaRequest:
        """Return the schema of the body with its id and version. Raises: as `content`."""
        members = self.members()
        return SchemaRequest(
            self.content(subject), _given(members, "id", ID_MAX), _given(members, "version", VERSION_MAX)
        )

    # --- the answer

    @property
    def takes_unknown_members(self) -> bool:
        """Whether the client reads answers with members that older registries did not have."""
        return self._headers.get(UNKNOWN_MEMBERS_HEADER, "").lower() == "true"


def _given(members: Mapping[str, Any], name: str, maximum: int) -> int | None:
    """Return a number of the body; None: it is left out, 0 or -1: the registry shall choose."""
    number = members.get(name)
    if number is None:
        return None
    if type(number) is not int or not -1 <= number <= maximum:
        raise RegistryError(BAD_REQUEST, reason=f"{name} must be a number from 1 to {maximum}.")
    return number if number > 0 else None


class Endpoint(NamedTuple):
    """A method of a resource: a row of the tables `ENDPOINTS`.

    Attributes:
        path: of Starlette's routes.
        meaning: what it answers; a line of the documentation.
        handle: returns the JSON of the answer, or a PlainText.
        is_change: whether the leader has to do it.
        unchanged: of a change: returns the answer if there is nothing to do, which every registry
            may say; None: there is something.
        parameters: the names of the query that it reads.
    """

    method: str
    path: str
    meaning: str
    handle: Callable[[Call], object]
    parameters: tuple[str, ...] = ()
    is_change: bool = False
    unchanged: Callable[[Call], object | None] | None = None
