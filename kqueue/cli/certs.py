"""`kqueue certs`: a development authority, and certificates of brokers and clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kqueue.security.certificates import Authority

F = TypeVar("F", bound=Callable[..., Any])
AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca.key"


def _folder_option(command: F) -> F:
    return click.option(
        "--folder",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("certs"),
        show_default=True,
        help="Where the files are.",
    )(command)


def _days_option(days: int) -> Callable[[F], F]:
    return click.option(
        "--days", type=click.IntRange(min=1, max=36500), default=days, show_default=True, help="Until it expires."
    )


@click.group()
def certs() -> None:
    """Make certificates for TLS: an authority, then a broker's, then those of clients.

    \b
      kqueue certs ca
      kqueue certs broker --host broker1.example.com --host 10.0.0.7
      kqueue certs client ann

    Files are PEM, and readable by you alone. Everybody who is to check a certificate needs ca.pem,
    which is no secret. Who has ca.key can make certificates of every name: keep it off the brokers.
    """


@certs.command()
@click.option("--name", default="CN=kqueue CA", show_default=True, help="Its distinguished name.")
@_days_option(3650)
@_folder_option
def ca(name: str, days: int, folder: Path) -> None:
    """Make an authority: its certificate ca.pem, and its key ca.key.

    \b
      kqueue certs ca
      kqueue certs ca --name 'CN=orders CA,O=Example' --folder /etc/kqueue/certs

    An authority that is there already is not replaced: its certificates would be worth nothing.
    """
    from kqueue.security.certificates import Authority

    for file in (folder / AUTHORITY, folder / AUTHORITY_KEY):
        if file.exists():
            raise click.ClickException(f"{file} is there already: delete it, or use another --folder")
    with _explained():
        authority = Authority.create(name, days)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(folder / AUTHORITY_KEY, authority.pair.key)
    _write(folder / AUTHORITY, authority.certificate)
    click.echo(f"{folder / AUTHORITY}: give it to clients, as ssl.truststore.location with ssl.truststore.type=PEM")
    click.echo(f"{folder / AUTHORITY_KEY}: the key that signs; keep it secret, brokers and clients do not need it")


@certs.command()
@click.argument("name", default="broker")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A name or address under which clients reach it (advertised.listeners); may be repeated. "
    "Without: localhost, 127.0.0.1, ::1.",
)
@_days_option(365)
@_folder_option
def broker(name: str, hosts: tuple[str, ...], days: int, folder: Path) -> None:
    """Make a broker's certificate, with its key in the same file NAME.pem.

    \b
      kqueue certs broker
      kqueue certs broker broker1 --host broker1.example.com --host 10.0.0.7

    Clients refuse a broker whose certificate does not name the host that they connect to. Run it
    again before the certificate expires: a running broker uses the new one within seconds.
    """
    from kqueue.security.certificates import LOOPBACK_NAMES

    with _explained():
        pair = _authority(folder).issue(name, hosts=hosts or LOOPBACK_NAMES, days=days)
    file = folder / f"{_stem(name)}.pem"
    _write(file, pair.pem)
    click.echo(f"{file}: for {', '.join(hosts or LOOPBACK_NAMES)}. Settings of the broker:")
    click.echo("  listeners=SSL://127.0.0.1:9093")
    click.echo("  ssl.keystore.type=PEM")
    click.echo(f"  ssl.keystore.location={file.absolute()}")
    click.echo("With clients that must have a certificate, so that other machines may reach it, besides:")
    click.echo("  listeners=SSL://:9093")
    click.echo("  ssl.client.auth=required")
    click.echo("  ssl.truststore.type=PEM")
    click.echo(f"  ssl.truststore.location={(folder / AUTHORITY).absolute()}")


@certs.command()
@click.argument("name")
@_days_option(365)
@_folder_option
def client(name: str, days: int, folder: Path) -> None:
    """Make a client's certificate, with its key in the same file NAME.pem.

    \b
      kqueue certs client ann
      kqueue certs client 'CN=ann,OU=billing,O=Example'

    The broker takes the client for the user of this name: User:CN=ann, or what
    ssl.principal.mapping.rules makes of it.
    """
    from kqueue.security.certificates import as_name

    with _explained():
        pair = _authority(folder).issue(name, days=days)
    file = folder / f"{_stem(name)}.pem"
    _write(file, pair.pem)
    click.echo(f"{file}: the broker takes it for User:{as_name(name)}. Settings of the client:")
    click.echo("  security.protocol=SSL")
    click.echo("  ssl.keystore.type=PEM")
    click.echo(f"  ssl.keystore.location={file.absolute()}")
    click.echo("  ssl.truststore.type=PEM")
    click.echo(f"  ssl.truststore.location={(folder / AUTHORITY).absolute()}")


def _authority(folder: Path) -> Authority:
    from kqueue.security.certificates import Authority, Certificate

    try:
        return Authority(Certificate((folder / AUTHORITY).read_text(), (folder / AUTHORITY_KEY).read_text()))
    except OSError as error:
        raise click.ClickException(
            f"{error.filename} can't be read: {error.strerror}. "
            f"First make an authority: kqueue certs ca --folder {folder}"
        ) from None


@contextmanager
def _explained() -> Iterator[None]:
    """Let a mistake end the command with its sentence."""
    from kqueue.base.errors import SettingError

    try:
        yield
    except SettingError as error:
        raise click.ClickException(str(error)) from None


def _stem(name: str) -> str:
    """Return the name of the file of a certificate: of its most specific part."""
    first = name.split(",")[0].partition("=")[2] or name
    stem = re.sub(r"[^A-Za-z0-9._@-]", "-", first).lstrip(".")
    if not stem or f"{stem}.pem" == AUTHORITY:
        raise click.ClickException(f"{name}: expected a name other than ca, with letters or digits")
    return stem


def _write(file: Path, text: str) -> None:
    from kqueue.security.certificates import write_private

    try:
        write_private(file, text)
    except OSError as error:
        raise click.ClickException(f"{file} can't be written: {error.strerror}") from None
