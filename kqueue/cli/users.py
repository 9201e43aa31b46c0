"""`kqueue users`: passwords for SCRAM, kept in the metadata store."""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar

import click

from kqueue.base.errors import CorruptData
from kqueue.base.names import did_you_mean
from kqueue.cli.connect import bootstrap_option, own_client
from kqueue.cli.offline_store import folder_option, offline_store
from kqueue.cli.output import columns, output_option, print_json
from kqueue.security.errors import UnacceptableCredential
from kqueue.security.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramMechanism,
    credential_of_salted,
    salted_password,
)
from kqueue.security.scram_validation import check_user_name, mechanism_of_number

if TYPE_CHECKING:
    from kqueue.broker.access.scram_users import Credentials, ScramAlteration
    from kqueue.client import Client
    from kqueue.metadata.store import MetadataStore

F = TypeVar("F", bound=Callable[..., Any])
HEAD = ("USER", "MECHANISM", "ITERATIONS")
BOTH = "both"
PASSWORD_BYTES_MAX = 4096
SALT_BYTES = 20
RESOURCE_NOT_FOUND = 91

Iterations = Mapping[ScramMechanism, int]


class Users(Protocol):
    """The users of a broker, which is asked, or of a folder, which is read."""

    def described(self, names: Sequence[str]) -> dict[str, Iterations]:
        """Return the users of these names that have a credential; no names: all."""
        ...

    def set_password(self, name: str, mechanism: ScramMechanism, password: str, iterations: int) -> None:
        """Set a user's password for one mechanism."""
        ...

    def remove(self, name: str, mechanism: ScramMechanism) -> None:
        """Remove a user's credential."""
        ...


@click.group()
def users() -> None:
    """Users with passwords, for SCRAM. All brokers of a cluster know a change at once.

    \b
      kqueue users add ann
      kqueue users add ann --password-file ann.password
      kqueue users add admin --folder kqueue-data
      kqueue users list
      kqueue users remove ann
    """


def _mechanism_option(help: str) -> Callable[[F], F]:
    return click.option(
        "--scram",
        "mechanisms",
        type=click.Choice(["SHA-256", "SHA-512", BOTH], case_sensitive=False),
        default=BOTH,
        show_default=True,
        callback=lambda ctx, param, value: _mechanisms(value),
        help=help,
    )


@users.command()
@click.argument("name")
@_mechanism_option("The mechanism for which the password is set.")
@click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    show_default=True,
    help="Of the hash: more make guessing, and each connection of the client, slower.",
)
@click.option(
    "--password-file", type=click.Path(path_type=Path), help="Read the password from the first line; -: standard input."
)
@click.option("--password", help="The password itself. It stays in the shell's history, and other users can see it.")
@folder_option
@bootstrap_option
def add(
    name: str,
    mechanisms: Sequence[ScramMechanism],
    iterations: int,
    password_file: Path | None,
    password: str | None,
    folder: Path | None,
    bootstrap: str,
) -> None:
    """Add a user, or change a user's password.

    \b
      kqueue users add ann
      echo "$PASSWORD" | kqueue users add ann
      kqueue users add ann --password-file ann.password --scram SHA-512
      kqueue users add admin --folder kqueue-data

    The password is asked for, or read from standard input, or from a file. The broker gets and
    stores salted hashes only. With --folder the user is there when the broker starts for the first
    time.
    """
    with _words_of_refusals():
        check_user_name(name)
    text = _password(password, password_file)
    with _users(folder, bootstrap) as known:
        for mechanism in mechanisms:
            known.set_password(name, mechanism, text, iterations)
    click.echo(f"User {name} has a password for {' and '.join(mechanism.name for mechanism in mechanisms)}.")


@users.command()
@click.argument("name")
@_mechanism_option("The mechanism for which the password is removed.")
@folder_option
@bootstrap_option
def remove(name: str, mechanisms: Sequence[ScramMechanism], folder: Path | None, bootstrap: str) -> None:
    """Remove a user's password. Connections that are authenticated already stay.

    \b
      kqueue users remove ann
      kqueue users remove ann --scram SHA-256
    """
    with _users(folder, bootstrap) as known:
        removed = [mechanism for mechanism in mechanisms if mechanism in _of_user(known, name)]
        for mechanism in removed:
            known.remove(name, mechanism)
    if not removed:
        raise click.ClickException(f"user {name} has no password for {' or '.join(one.name for one in mechanisms)}")
    click.echo(f"User {name} has no password for {' and '.join(mechanism.name for mechanism in removed)} any more.")


@users.command("list")
@output_option
@folder_option
@bootstrap_option
def list_users(as_json: bool, folder: Path | None, bootstrap: str) -> None:
    """List the names of all users with passwords.

    \b
      kqueue users list
      kqueue users list --folder kqueue-data
    """
    with _users(folder, bootstrap) as known:
        names = sorted(known.described(()))
    if as_json:
        print_json(names)
    else:
        click.echo("".join(f"{name}\n" for name in names), nl=False)


@users.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@output_option
@folder_option
@bootstrap_option
def describe(names: tuple[str, ...], as_json: bool, folder: Path | None, bootstrap: str) -> None:
    """Show mechanisms and iterations of users, or of all users.

    \b
      kqueue users describe
      kqueue users describe ann bob
    """
    with _users(folder, bootstrap) as known:
        described = known.described(names)
        missing = [name for name in names if name not in described]
        others = known.described(()) if missing else {}
    rows = [
        (name, mechanism.name, iterations)
        for name, credentials in sorted(described.items())
        for mechanism, iterations in sorted(credentials.items())
    ]
    if as_json:
        print_json([{"user": user, "mechanism": name, "iterations": iterations} for user, name, iterations in rows])
    elif rows or not missing:
        click.echo(columns(HEAD, rows))
    for name in missing:
        click.echo(f"Error: no password is stored for {name}{did_you_mean(name, others)}", err=True)
    if missing:
        raise click.exceptions.Exit(1)


class BrokerUsers:
    """Asks a broker."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def described(self, names: Sequence[str]) -> dict[str, Iterations]:
        """See `Users`."""
        from kqueue.client import Refusal

        described: dict[str, Iterations] = {}
        for name, credentials in self._client.cluster.scram_users(names).items():
            if not isinstance(credentials, Refusal):
                described[name] = {mechanism_of_number(number): count for number, count in credentials.items()}
            elif credentials.code != RESOURCE_NOT_FOUND:
                raise click.ClickException(credentials.message or f"{name}: error {credentials.code}")
        return described

    def set_password(self, name: str, mechanism: ScramMechanism, password: str, iterations: int) -> None:
        """See `Users`."""
        from kqueue.client import SaltedPassword

        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, password.encode(), salt, iterations)
        self._client.cluster.set_scram_password(name, SaltedPassword(mechanism.number, iterations, salt, salted))

    def remove(self, name: str, mechanism: ScramMechanism) -> None:
        """See `Users`."""
        self._client.cluster.remove_scram_password(name, mechanism.number)


class FolderUsers:
    """Changes the store of a data folder."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def described(self, names: Sequence[str]) -> dict[str, Iterations]:
        """See `Users`."""
        from kqueue.broker.access.scram_users import PREFIX

        described: dict[str, Iterations] = {}
        for key, entry in self._store.read(PREFIX).items():
            name = key.removeprefix(PREFIX)
            credentials = _decoded(entry.value)
            if credentials is None:
                click.echo(f"Warning: the entry of user {name} is damaged; set the password again.", err=True)
            elif not names or name in names:
                described[name] = {mechanism: credential.iterations for mechanism, credential in credentials.items()}
        return described

    def set_password(self, name: str, mechanism: ScramMechanism, password: str, iterations: int) -> None:
        """See `Users`."""
        from kqueue.broker.access.scram_users import ScramAlteration

        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, password.encode(), salt, iterations)
        self._alter(ScramAlteration(name, mechanism, credential_of_salted(mechanism, salted, salt, iterations)))

    def remove(self, name: str, mechanism: ScramMechanism) -> None:
        """See `Users`."""
        from kqueue.broker.access.scram_users import ScramAlteration

        self._alter(ScramAlteration(name, mechanism, None))

    def _alter(self, alteration: ScramAlteration) -> None:
        from kqueue.broker.access.scram_users import PREFIX, altered_entries

        key = f"{PREFIX}{alteration.user}"
        entry = self._store.read(key).get(key)
        credentials = None if entry is None else _decoded(entry.value)
        users = {alteration.user: credentials} if credentials is not None else {}
        changed = altered_entries([alteration], users, unreadable=[alteration.user])
        puts = {key: value for key, value in changed.items() if value is not None}
        guards = {key: None if entry is None else entry.version}
        self._store.commit(guards, puts, changed.keys() - puts.keys())


@contextlib.contextmanager
def _users(folder: Path | None, bootstrap: str) -> Iterator[Users]:
    with _words_of_refusals():
        if folder is not None:
            with offline_store(folder) as store:
                yield FolderUsers(store)
        else:
            with own_client(bootstrap) as client:
                yield BrokerUsers(client)


@contextlib.contextmanager
def _words_of_refusals() -> Iterator[None]:
    try:
        yield
    except UnacceptableCredential as error:
        raise click.ClickException(str(error)) from None


def _of_user(known: Users, name: str) -> Iterations:
    return known.described([name]).get(name, {})


def _decoded(value: bytes) -> Credentials | None:
    """Return the credentials of a stored entry; None: it is damaged."""
    from kqueue.broker.access.scram_users import decode_user

    try:
        return decode_user(value)
    except CorruptData:
        return None


def _mechanisms(value: str) -> list[ScramMechanism]:
    return [mechanism for name, mechanism in SCRAM_MECHANISMS.items() if value == BOTH or name.endswith(value)]


def _password(given: str | None, file: Path | None) -> str:
    """Return the password. Raises ClickException: it is empty, too long, or can't be read."""
    if given is not None and file is not None:
        raise click.UsageError("--password and --password-file exclude each other")
    if given is not None:
        click.echo("Warning: a password in the arguments can be seen by others; use --password-file.", err=True)
        text = given
    elif file is None and sys.stdin.isatty():
        text = str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    elif file is None or str(file) == "-":
        text = _first_line(sys.stdin.buffer, "standard input")
    else:
        try:
            with file.open("rb") as opened:
                text = _first_line(opened, str(file))
        except OSError as error:
            raise click.ClickException(f"the password can't be read from {file}: {error.strerror}") from None
    if not text or len(text.encode()) > PASSWORD_BYTES_MAX:
        raise click.ClickException(f"expected a password of 1 to {PASSWORD_BYTES_MAX} bytes")
    return text


def _first_line(stream: IO[bytes], name: str) -> str:
    try:
        return stream.readline(PASSWORD_BYTES_MAX + 2).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise click.ClickException(f"the password in {name} is not UTF-8") from None
