"""`kqueue profile`: the addresses and security settings of several clusters, by name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from kqueue.base.errors import KqueueError, SettingError
from kqueue.cli.client_access import DEFAULT_BOOTSTRAP, addresses
from kqueue.cli.connect import parse_name_values
from kqueue.cli.output import columns, output_option, print_json
from kqueue.cli.profiles import BOOTSTRAP_SERVERS, ProfileError, Profiles, complete_profiles

HIDDEN = "(hidden)"
_LOCATION = ".location"
_NEW = """\
# The profile {name}: Kafka's client properties. Lines after a # are comments.
bootstrap.servers=localhost:9092
# security.protocol=SASL_SSL
# ssl.truststore.type=PEM
# ssl.truststore.location=/etc/kqueue/ca.pem
# sasl.mechanism=SCRAM-SHA-512
# sasl.username=
# sasl.password=
"""


@click.group()
def profile() -> None:
    """Profiles of clusters: address, TLS and SASL under a name.

    \b
      kqueue profile create prod -b broker1:9093,broker2:9093 --command-config client.properties
      kqueue profile create local -b localhost:9092
      kqueue profile use prod
      kqueue topics list
      kqueue topics list --profile local
      KQUEUE_PROFILE=local kqueue topics list

    A profile is a file of Kafka's client properties, of mode 0600, in
    $XDG_CONFIG_HOME/kqueue/profiles (or ~/.config). The first of these that is given counts: the
    command line; variables; the profile. An address by -b or KQUEUE_BOOTSTRAP leaves out the
    profile in use, its passwords too; a profile that --profile names keeps its security, and -b
    replaces only its address.
    """


@profile.command()
@click.argument("name")
@click.option("-b", "--bootstrap-server", "bootstrap", metavar="HOST:PORT[,…]", help="The brokers of the cluster.")
@click.option(
    "--command-config",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with client properties for TLS and SASL, which is copied.",
)
@click.option("-s", "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A client property; may be repeated.")
@click.option("--use", is_flag=True, help="Use the profile from now on.")
def create(name: str, bootstrap: str | None, file: Path | None, pairs: tuple[str, ...], use: bool) -> None:
    """Store a profile. The first one is used from then on.

    \b
      kqueue profile create local
      kqueue profile create prod -b broker1:9093 --command-config client.properties --use
      kqueue profile create test -b test:9093 --set security.protocol=SSL

    A password that --set names stays in the shell's history; --command-config, or `kqueue profile
    edit`, avoids that.
    """
    with _errors():
        profiles = Profiles()
        if profiles.path(name).exists():
            raise ProfileError(f"the profile {name!r} exists already; `kqueue profile edit {name}` changes it")
        properties = {**_copied(file), **dict(parse_name_values(pairs, "--set"))}
        properties = {BOOTSTRAP_SERVERS: properties.pop(BOOTSTRAP_SERVERS, DEFAULT_BOOTSTRAP), **properties}
        if bootstrap is not None:
            properties[BOOTSTRAP_SERVERS] = bootstrap
        _check(properties)
        is_first = not profiles.names()
        profiles.write(name, properties)
        if use or is_first:
            profiles.use(name)
    click.echo(
        f"Created profile {name} for {properties[BOOTSTRAP_SERVERS]}{'; it is in use' if use or is_first else ''}."
    )


@profile.command("use")
@click.argument("name", required=False, shell_complete=complete_profiles)
@click.option("--none", is_flag=True, help="Use no profile.")
def use_profile(name: str | None, none: bool) -> None:
    """Use a profile in all commands from now on.

    \b
      kqueue profile use prod
      kqueue profile use --none
    """
    if (name is None) != none:
        raise click.UsageError("name a profile, or say --none")
    with _errors():
        Profiles().use(name)
    click.echo("No profile is in use." if name is None else f"Profile {name} is in use.")


@profile.command("list")
@output_option
def list_profiles(as_json: bool) -> None:
    """List all profiles. A star marks the one in use.

    \b
      kqueue profile list
      kqueue profile list -o json
    """
    with _errors():
        profiles = Profiles()
        current = profiles.current()
        rows = [(name, profiles.read(name).get(BOOTSTRAP_SERVERS)) for name in profiles.names()]
    if as_json:
        print_json([{"name": name, "in_use": name == current, "bootstrap": address} for name, address in rows])
        return
    cells = [(f"{name}*" if name == current else name, address or "-") for name, address in rows]
    click.echo(columns(("NAME", "BOOTSTRAP-SERVERS"), cells))
    if not rows:
        click.echo("There is no profile; `kqueue profile create` adds one.", err=True)


@profile.command()
@click.argument("name", required=False, shell_complete=complete_profiles)
@output_option
def show(name: str | None, as_json: bool) -> None:
    """Show the properties of a profile, without NAME of the one in use. Passwords are not shown.

    \b
      kqueue profile show
      kqueue profile show prod -o json
    """
    with _errors():
        profiles = Profiles()
        chosen = name or profiles.current()
        if chosen is None:
            raise ProfileError("no profile is in use; `kqueue profile list` shows all")
        properties = _shown(profiles.read(chosen))
        path = profiles.path(chosen)
    if as_json:
        print_json({"name": chosen, "file": str(path), "properties": properties})
        return
    click.echo(f"# {chosen}, in {path}")
    for key, value in properties.items():
        click.echo(f"{key}={value}")


@profile.command()
@click.argument("name", required=False, shell_complete=complete_profiles)
def edit(name: str | None) -> None:
    """Edit a profile's properties with $EDITOR, without NAME those of the one in use.

    \b
      kqueue profile edit
      EDITOR=nano kqueue profile edit prod

    A profile that does not exist is created. What is not valid is not stored.
    """
    with _errors():
        profiles = Profiles()
        chosen = name or profiles.current()
        if chosen is None:
            raise ProfileError("no profile is in use; name one")
        path = profiles.path(chosen)
        before = path.read_text(encoding="utf-8") if path.is_file() else _NEW.format(name=chosen)
        text = click.edit(before, extension=".properties")
        if text is None or (text == before and path.is_file()):
            click.echo(f"Profile {chosen} is unchanged.")
            return
        from kqueue.config.properties import parse_properties

        _check({key: value for _, key, value in parse_properties(text)})
        profiles.write_text(chosen, text)
    click.echo(f"Changed profile {chosen}.")


@profile.command()
@click.argument("name", shell_complete=complete_profiles)
def delete(name: str) -> None:
    """Delete a profile. If it is in use, none is afterwards.

    \b
      kqueue profile delete test
    """
    with _errors():
        Profiles().delete(name)
    click.echo(f"Deleted profile {name}.")


def _copied(file: Path | None) -> dict[str, str]:
    """Return the properties of a file, with the paths in it made absolute."""
    if file is None:
        return {}
    from kqueue.config.properties import read_file

    properties = {key: str(sourced.value) for key, sourced in read_file(file).items()}
    return {key: str(Path(value).absolute()) if key.endswith(_LOCATION) else value for key, value in properties.items()}


def _check(properties: Mapping[str, str]) -> None:
    """Check address and security. Raises: SettingError, BadParameter."""
    from kqueue.config.client_properties import security_of

    addresses(properties.get(BOOTSTRAP_SERVERS, DEFAULT_BOOTSTRAP))
    security_of({key: value for key, value in properties.items() if key != BOOTSTRAP_SERVERS}, None)


def _shown(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without secrets: passwords, keys, and what JAAS texts contain."""
    from kqueue.base.settings import is_secret

    return {
        key: HIDDEN if value and (is_secret(key) or key.endswith("jaas.config")) else value
        for key, value in properties.items()
    }


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except SettingError as error:
        raise click.ClickException(f"{error}") from None
    except KqueueError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'the profile'}: {error.strerror}") from None
