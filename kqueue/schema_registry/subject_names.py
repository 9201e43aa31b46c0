"""Names of subjects, and the contexts they are in: `:.context:subject`, or `subject` alone.

Each context has its own subjects and ids. A name without a context is in the default one, `.`.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from kqueue.schema_registry.errors import INVALID_SUBJECT, RegistryError
from kqueue.schema_registry.limits import Limits

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
"""Configs and modes of this context hold for all contexts without their own."""
ALL_CONTEXTS = "*"
"""In a prefix `:*:`, which searches all contexts."""
RESERVED = ("__GLOBAL", "__EMPTY")


class SubjectName(NamedTuple):
    """A subject in its context. `subject`: "" names the context itself."""

    context: str
    subject: str

    def __str__(self) -> str:
        """The name as clients and records have it."""
        return self.subject if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.subject}"

    @property
    def is_context(self) -> bool:
        """Whether it names no subject, only a context."""
        return not self.subject


def parse_subject(text: str, context: str = DEFAULT_CONTEXT) -> SubjectName:
    """Return the name that a text says. `context`: that of a text without one.

    Any text is a name; `checked_subject` refuses those that may not be registered.
    """
    if text.startswith(":."):
        in_text, colon, subject = text[1:].partition(":")
        if colon:
            return SubjectName(in_text, subject)
    return SubjectName(context, text)


def checked_subject(text: str, limits: Limits) -> SubjectName:
    """Return the name of a subject that may be registered. Raises: RegistryError."""
    name = checked_scope(text, limits)
    if name.is_context:
        raise _invalid(text, "it is empty")
    if name.subject in RESERVED or name.context == GLOBAL_CONTEXT:
        raise _invalid(text, "it is reserved")
    return name


def checked_scope(text: str, limits: Limits) -> SubjectName:
    """Return the name of a subject or context that may have a config. Raises: RegistryError."""
    if len(text) > limits.subject_characters_max:
        raise _invalid(text[:40] + "...", f"it has {len(text):,} characters, at most {limits.subject_characters_max:,}")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise _invalid(text, "it has control characters, or halves of a surrogate pair")
    name = parse_subject(text)
    if parse_subject(str(name)) != name:
        raise _invalid(text, "without the default context it names another subject")
    return name


def _invalid(text: str, reason: str) -> RegistryError:
    return RegistryError(INVALID_SUBJECT, subject=text, reason=reason)
