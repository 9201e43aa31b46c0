"""Failures as pages: an HTTP status, a sentence that says what happened, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from kqueue.base.terminal import one_line
from kqueue.client.errors import (
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    DeadlinePassed,
    IncompatibleBroker,
    NotAuthenticated,
)

T = TypeVar("T")
TEXT_CHARACTERS_MAX = 500
MISSING = {
    "UNKNOWN_TOPIC_OR_PARTITION": "There is no such topic or partition.",
    "UNKNOWN_TOPIC_ID": "There is no such topic.",
    "GROUP_ID_NOT_FOUND": "There is no such group.",
    "BROKER_ID_NOT_REGISTERED": "There is no such broker.",
    "TRANSACTIONAL_ID_NOT_FOUND": "There is no such transactional id.",
    "RESOURCE_NOT_FOUND": "There is no such entry.",
}
CONFLICTS = {
    "TOPIC_ALREADY_EXISTS": "The topic exists already.",
    "NON_EMPTY_GROUP": "The group has members: stop its consumers first.",
    "GROUP_SUBSCRIBED_TO_TOPIC": "Members of the group read this topic: stop its consumers first.",
    "REASSIGNMENT_IN_PROGRESS": "The partition is being moved: wait until it has ended, or cancel it.",
}
ACL_REMEDY = "An administrator allows it with an ACL, or log in as another user."


class Problem(NamedTuple):
    """What a page says of a failure. `status`: of HTTP. `remedy`: what to do; "": nothing known."""

    status: int
    title: str
    sentence: str
    remedy: str = ""


class UnknownResource(Exception):
    """A page's subject does not exist. Its text is a sentence that names it."""


class TooBusy(Exception):
    """All connections to the brokers are in use."""


def problem_of(error: BaseException) -> Problem:
    """Return what a page says of an error of a client, of the console, or of itself."""
    if isinstance(error, UnknownResource):
        return Problem(404, "Not found", str(error), "It may have been deleted. Look it up in its list.")
    if isinstance(error, TooBusy):
        return Problem(503, "Busy", "All connections of the console to the brokers are in use.", "Try again soon.")
    if isinstance(error, BrokerRefused):
        return _of_refusal(error)
    text = text_of(error)
    if isinstance(error, NotAuthenticated):
        remedy = "Check the credentials and the certificates by which the console connects."
        return Problem(403, "Not accepted", f"The broker does not accept the console's login: {text}", remedy)
    if isinstance(error, IncompatibleBroker):
        return Problem(501, "Not supported", f"This broker does not serve what the page needs: {text}")
    if isinstance(error, BrokerUnreachable | ConnectionLost | DeadlinePassed):
        remedy = "Check that the broker runs and can be reached from here. The page works again when it answers."
        return Problem(503, "No broker answers", f"The brokers do not answer: {text}", remedy)
    if isinstance(error, ClientError):
        return Problem(502, "Wrong answer", f"The broker's answer can't be used: {text}")
    if isinstance(error, ValueError):
        return Problem(400, "Not valid", text)
    return Problem(500, "Error in the console", "The console failed; its log has the details.")


def _of_refusal(error: BrokerRefused) -> Problem:
    name, said = error.code_name, error.broker_message
    sentence = shortened(said) if said else ""
    if name.endswith("AUTHORIZATION_FAILED"):
        return Problem(403, "Not allowed", sentence or f"The broker does not allow this user {error.api}.", ACL_REMEDY)
    if name in MISSING:
        return Problem(404, "Not found", sentence or MISSING[name])
    if name in CONFLICTS:
        return Problem(409, "Not possible now", sentence or CONFLICTS[name])
    if name == "SECURITY_DISABLED":
        remedy = "Set authorizer.class.name on the brokers to use ACLs."
        return Problem(409, "No access control", "The brokers have no authorizer, so there are no ACLs.", remedy)
    return Problem(400, "Refused by the broker", sentence or text_of(error))


def text_of(error: BaseException) -> str:
    """Return an error's text as one line of bounded length."""
    return shortened(str(error))


def shortened(text: str) -> str:
    """Return text as one line of at most `TEXT_CHARACTERS_MAX` characters."""
    line = one_line(" ".join(text[: 4 * TEXT_CHARACTERS_MAX].split()))
    return line if len(line) <= TEXT_CHARACTERS_MAX else f"{line[: TEXT_CHARACTERS_MAX - 1]}…"


def or_problem(call: Callable[[], T], problems: list[Problem]) -> T | None:
    """Return a call's result; None where the user may not see it, or the broker does not have it.

    Args:
        problems: gets the reason, for the rest of the page is shown without it.
    """
    try:
        return call()
    except (BrokerRefused, IncompatibleBroker) as error:
        problems.append(problem_of(error))
        return None
