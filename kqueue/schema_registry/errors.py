"""The errors of the REST API: a row for each, and `RegistryError`, which carries one.

The numbers are those of Confluent's API, which clients compare. Numbers above 1000 begin with their
HTTP status.
"""

from __future__ import annotations

from typing import NamedTuple

from kqueue.base.errors import KqueueError

SENTENCE_CHARACTERS_MAX = 50_000
"""Characters of a sentence, which may name what a client sent; the rest is left out."""


class ErrorKind(NamedTuple):
    """One row. `sentence`: what clients read, with the names of its fields in braces."""

    code: int
    sentence: str

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code if self.code < 1000 else self.code // 100


class RegistryError(KqueueError):
    """A request that is refused, or can't be served. `fields` fill the sentence of its kind."""

    def __init__(self, kind: ErrorKind, /, **fields: object) -> None:
        super().__init__(kind.sentence.format(**fields)[:SENTENCE_CHARACTERS_MAX])
        self.kind = kind

    @property
    def code(self) -> int:
        """The number that clients compare."""
        return self.kind.code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.kind.status


# --- the request

BAD_REQUEST = ErrorKind(400, "{reason}")
UNAUTHORIZED = ErrorKind(401, "{reason}")
FORBIDDEN = ErrorKind(40301, "The user is not allowed to {operation} {resource}.")
PATH_NOT_FOUND = ErrorKind(404, "The path {path!r} names no resource.")
METHOD_NOT_ALLOWED = ErrorKind(405, "The resource does not allow {method}; it allows {allowed}.")
NOT_ACCEPTABLE = ErrorKind(406, "Answers are {offered}; the request accepts {accepted!r} only.")
INCOMPATIBLE_SCHEMA = ErrorKind(
    409, "The schema is incompatible with an earlier one of subject {subject!r}, at level {level}: {differences}"
)
BODY_TOO_LARGE = ErrorKind(413, "The body has more than {maximum:,} bytes.")
UNSUPPORTED_MEDIA_TYPE = ErrorKind(415, "The body is {given!r}; expected {expected}.")

# --- what it names is not there

SUBJECT_NOT_FOUND = ErrorKind(40401, "Subject {subject!r} not found.")
VERSION_NOT_FOUND = ErrorKind(40402, "Version {version} not found.")
SCHEMA_NOT_FOUND = ErrorKind(40403, "Schema not found.")
SCHEMA_ID_NOT_FOUND = ErrorKind(40403, "Schema {id} not found.")
SUBJECT_SOFT_DELETED = ErrorKind(
    40404, "Subject {subject!r} is soft-deleted already; permanent=true deletes it permanently."
)
SUBJECT_NOT_SOFT_DELETED = ErrorKind(
    40405,
    "Subject {subject!r} must be soft-deleted before it is deleted permanently: delete it without permanent=true.",
)
VERSION_SOFT_DELETED = ErrorKind(
    40406,
    "Version {version} of subject {subject!r} is soft-deleted already; permanent=true deletes it permanently.",
)
VERSION_NOT_SOFT_DELETED = ErrorKind(
    40407,
    "Version {version} of subject {subject!r} must be soft-deleted before it is deleted permanently: "
    "delete it without permanent=true.",
)
SUBJECT_CONFIG_NOT_FOUND = ErrorKind(
    40408, "Subject {subject!r} has no compatibility level of its own; defaultToGlobal=true returns the one that holds."
)
SUBJECT_MODE_NOT_FOUND = ErrorKind(
    40409, "Subject {subject!r} has no mode of its own; defaultToGlobal=true returns the one that holds."
)

# --- what it asks for is invalid, or refused

INVALID_SCHEMA = ErrorKind(42201, "Invalid schema: {reason}")
CIRCULAR_REFERENCE = ErrorKind(42201, "Invalid schema: references form a circle through {subject!r} version {version}.")
INVALID_VERSION = ErrorKind(
    42202, 'The version {version!r} is invalid; expected "latest", or a number between 1 and 2147483647.'
)
INVALID_COMPATIBILITY_LEVEL = ErrorKind(
    42203, "The compatibility level {level!r} is invalid; expected one of {levels}."
)
INVALID_MODE = ErrorKind(42204, "The mode {mode!r} is invalid; expected one of {modes}.")
OPERATION_NOT_PERMITTED = ErrorKind(42205, "{reason}")
REFERENCE_EXISTS = ErrorKind(
    42206, "Version {version} of subject {subject!r} is referenced by schema {id}; delete what refers to it first."
)
ID_DOES_NOT_MATCH = ErrorKind(42207, "Id {id} belongs to another schema; expected an id that is free.")
INVALID_SUBJECT = ErrorKind(42208, "The subject {subject!r} is invalid: {reason}.")
SCHEMA_TOO_LARGE = ErrorKind(42209, "The schema is too large: {reason}.")
INVALID_RULE_SET = ErrorKind(42210, "Invalid rule set or metadata: {reason}.")

TOO_MANY_LOGINS = ErrorKind(429, "Too many logins of this address failed; try again in a minute.")

# --- the registry

INTERNAL_ERROR = ErrorKind(500, "An unexpected error inside of the registry; its log says more.")
STORE_FAILED = ErrorKind(50001, "The topic of the schemas could not be written: {reason}.")
OPERATION_TIMED_OUT = ErrorKind(
    50002, "The change was written, and did not come back within {seconds:g} s; look it up."
)
FORWARDING_FAILED = ErrorKind(50003, "The leader {leader} did not answer a forwarded request: {reason}.")
LOGIN_UNCHECKED = ErrorKind(503, "The broker that checks logins does not answer: {reason}.")
UNKNOWN_LEADER = ErrorKind(50004, "No registry leads at present; try again.")
