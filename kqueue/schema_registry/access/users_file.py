"""Logins by a file of users, in the form of a broker's ``kqueue.sasl.users.file``."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from kqueue.base.errors import SettingError
from kqueue.security.sasl.mechanisms import read_users
from kqueue.security.sasl.passwords import Passwords

REFUSED = "User or password are wrong."
OPTION = "--users-file"
FileState = tuple[int, int, int]


class UsersFile:
    """The `LoginCheck` over a file with a line ``user=password`` for each user.

    A file that has changed is read again. While it can't be read, half written for example, the
    users of before may log in.

    Raises: SettingError: the file can't be read, or a line has another form.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._passwords = Passwords(read_users(str(path), OPTION))
        self._state = _state(path)

    def refusal(self, user: str, password: str) -> str | None:
        """See `LoginCheck`."""
        return None if self._current().matches(user, password) else REFUSED

    def _current(self) -> Passwords:
        with self._lock:
            state = _state(self._path)
            if state != self._state:
                with contextlib.suppress(SettingError):  # the next login reads it again
                    self._passwords, self._state = Passwords(read_users(str(self._path), OPTION)), state
            return self._passwords


def _state(path: Path) -> FileState | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
