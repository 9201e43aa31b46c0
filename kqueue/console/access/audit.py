"""The audit: one line of the log for each change, login and refusal, with who, what and outcome."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from kqueue.base import events
from kqueue.base.terminal import one_line

logger = logging.getLogger("kqueue.console.audit")

VALUE_CHARACTERS_MAX = 300


def audit(
    action: str, *, user: str, address: str, resource: str = "", outcome: str = "done", details: Mapping[str, str] = {}
) -> None:
    """Log one line of ``name="value"`` pairs.

    Args:
        action: as in ``create topic``. outcome: ``done``, or why not. details: what else matters;
            never a secret.
    """
    values = {"action": action, "resource": resource, "user": user, "address": address, "outcome": outcome, **details}
    text = " ".join(f"{name}={_quoted(value)}" for name, value in values.items() if value)
    logger.info("%s", text, extra=events.CONSOLE_CHANGE.extra(**values))


def _quoted(value: str) -> str:
    text = one_line(value)
    if len(text) > VALUE_CHARACTERS_MAX:
        text = f"{text[: VALUE_CHARACTERS_MAX - 1]}…"
    return json.dumps(text, ensure_ascii=False)
