"""The profiles of `kqueue profile`: one properties file for each cluster, and the name in use.

A profile is a file of Kafka's client properties with ``bootstrap.servers``, as Kafka's own tools
read it by ``--command-config``. It may contain passwords, so all files have mode 0600.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from kqueue.base.errors import KqueueError
from kqueue.base.names import did_you_mean

BOOTSTRAP_SERVERS = "bootstrap.servers"
_SUFFIX = ".properties"
_CURRENT = "profile"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\Z")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


class ProfileError(KqueueError):
    """A profile is missing, or its name or file is not usable."""


def config_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return kqueue's folder in the XDG configuration folder, which need not exist."""
    base = environment.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "kqueue"


def check_name(name: str) -> str:
    """Return `name` if a profile can have it. Raises: ProfileError."""
    if not _NAME.match(name):
        raise ProfileError(f"a profile can't be called {name!r}: use letters, digits, '.', '_' and '-'")
    return name


class Profiles:
    """The profiles in a folder.

    Durability: a file is replaced atomically, so a reader sees the old or the new content.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or config_folder()
        self._files = self.folder / "profiles"

    def names(self) -> list[str]:
        """Return the names of all profiles, sorted."""
        return sorted(path.name.removesuffix(_SUFFIX) for path in self._files.glob(f"*{_SUFFIX}"))

    def current(self) -> str | None:
        """Return the name of the profile in use; None: no profile is."""
        try:
            return (self.folder / _CURRENT).read_text().strip() or None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ProfileError(f"{self.folder / _CURRENT} can't be read: {error.strerror}") from None

    def path(self, name: str) -> Path:
        """Return the file of a profile, which need not exist. Raises: ProfileError."""
        return self._files / f"{check_name(name)}{_SUFFIX}"

    def existing(self, name: str) -> Path:
        """Return the file of a profile. Raises: ProfileError: there is none of this name."""
        path = self.path(name)
        if not path.is_file():
            known = self.names()
            remedy = did_you_mean(name, known) or "; `kqueue profile list` shows all, `kqueue profile create` adds one"
            raise ProfileError(f"there is no profile {name!r}{remedy}")
        return path

    def read(self, name: str) -> dict[str, str]:
        """Return the properties of a profile.

        Raises: ProfileError: there is none of this name. SettingError: its file is damaged.
        """
        from kqueue.config.properties import read_file

        return {key: str(sourced.value) for key, sourced in read_file(self.existing(name)).items()}

    def write(self, name: str, properties: Mapping[str, str]) -> None:
        """Store a profile, in place of one of the same name."""
        self._replace(self.path(name), "".join(f"{key}={_escaped(value)}\n" for key, value in properties.items()))

    def write_text(self, name: str, text: str) -> None:
        """Store a profile as the text of a properties file."""
        self._replace(self.path(name), text)

    def use(self, name: str | None) -> None:
        """Use a profile from now on; None: use none. Raises: ProfileError."""
        if name is None:
            (self.folder / _CURRENT).unlink(missing_ok=True)
        else:
            self.existing(name)
            self._replace(self.folder / _CURRENT, f"{name}\n")

    def delete(self, name: str) -> None:
        """Delete a profile; if it is in use, none is afterwards. Raises: ProfileError."""
        self.existing(name).unlink()
        if self.current() == name:
            self.use(None)

    def _replace(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(path)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    temporary.unlink()
        except OSError as error:
            raise ProfileError(f"{path} can't be written: {error.strerror}") from None


def complete_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the profiles that begin so, for a shell; none after a failure."""
    with contextlib.suppress(Exception):
        return [CompletionItem(name) for name in Profiles().names() if name.startswith(incomplete)]
    return []


def _escaped(value: str) -> str:
    """Return a value as a properties file has it: Java's escapes, and a leading blank escaped."""
    text = "".join(_ESCAPES.get(character, character) for character in value)
    return f"\\{text}" if text.startswith(" ") else text
