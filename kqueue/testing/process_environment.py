"""Environment of the processes that tests start."""

from __future__ import annotations

import os

from kqueue.config.environment import ENVIRONMENT_PREFIX


def process_environment(**variables: str) -> dict[str, str]:
    """Return this process's environment without variables of kqueue, and with `variables`.

    `kqueue serve` takes each variable that begins with ``KQUEUE_`` for a setting, and refuses those
    that it does not know. So the variables that tests read themselves, such as
    ``KQUEUE_KAFKA_LIBS``, must not reach the brokers that they start.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    return {**kept, **variables}
