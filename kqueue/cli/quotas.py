"""`kqueue quotas`: what users, client ids and addresses may use of each broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kqueue.cli.connect import bootstrap_option, explain_code, own_client
from kqueue.cli.output import columns, output_option, print_json

if TYPE_CHECKING:
    from kqueue.client.calls.quotas import QuotaEntry

F = TypeVar("F", bound=Callable[..., Any])
TYPES = ("user", "client-id", "ip")
HEAD = ("USER", "CLIENT ID", "IP", "QUOTA", "VALUE")
QUOTAS = {
    "producer_byte_rate": "bytes per second of Produce requests",
    "consumer_byte_rate": "bytes per second of records that are fetched",
    "request_percentage": "time of the broker's thread, in percent",
    "controller_mutation_rate": "partitions per second that are created or deleted",
    "connection_creation_rate": "new connections per second from an address",
}
DEFAULT = "<default>"


@click.group()
def quotas() -> None:
    """Bound what clients may use of each broker. The most specific quota holds for a client.

    \b
      kqueue quotas set --user ann producer_byte_rate=1048576
      kqueue quotas set --default-client-id consumer_byte_rate=1048576 request_percentage=50
      kqueue quotas set --user ann --client-id app producer_byte_rate=2097152
      kqueue quotas set --default-ip connection_creation_rate=20
      kqueue quotas list
      kqueue quotas show --user ann --client-id app
      kqueue quotas remove --user ann producer_byte_rate

    A client above its quota waits: its responses say so, and the broker reads nothing of it for
    that time.
    """


def entity_options(command: F) -> F:
    """Add the options that name an entity, as the argument `entity`: name by type, None the
    default.
    """

    def gathered(**options: Any) -> Any:
        entity: dict[str, str | None] = {}
        for kind in TYPES:
            key = kind.replace("-", "_")
            name, is_default = options.pop(key), options.pop(f"default_{key}")
            if name is not None and is_default:
                raise click.UsageError(f"--{kind} and --default-{kind} exclude each other")
            if name is not None or is_default:
                entity[kind] = name
        return command(entity=entity, **options)

    gathered.__name__, gathered.__doc__ = command.__name__, command.__doc__
    gathered.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    wrapped: Any = gathered
    for kind, what in zip(reversed(TYPES), ("this address", "this client id", "this user"), strict=True):
        wrapped = click.option(f"--default-{kind}", is_flag=True, help=f"Every {kind} without a quota of its own.")(
            wrapped
        )
        wrapped = click.option(f"--{kind}", metavar="NAME", help=f"Of {what}.")(wrapped)
    return wrapped  # type: ignore[no-any-return]


@quotas.command("set")
@click.argument("values", nargs=-1, required=True, metavar="QUOTA=VALUE...")
@entity_options
@bootstrap_option
def set_quotas(entity: Mapping[str, str | None], values: tuple[str, ...], bootstrap: str) -> None:
    """Set quotas of a user, a client id, both, or an address. They hold at once.

    \b
      kqueue quotas set --user ann producer_byte_rate=1048576 consumer_byte_rate=2097152
      kqueue quotas set --default-user request_percentage=25
      kqueue quotas set --ip 192.0.2.7 connection_creation_rate=5
    """
    changes = dict(map(_parse, values))
    if len(changes) < len(values):
        raise click.UsageError("a quota is named twice")
    _alter(bootstrap, entity, changes)
    click.echo(f"Set {', '.join(changes)} of {_describe(entity)}.")


@quotas.command()
@click.argument("names", nargs=-1, metavar="QUOTA...")
@entity_options
@bootstrap_option
def remove(entity: Mapping[str, str | None], names: tuple[str, ...], bootstrap: str) -> None:
    """Remove quotas of a user, a client id, both, or an address; without names all that it has.

    \b
      kqueue quotas remove --user ann producer_byte_rate
      kqueue quotas remove --default-client-id
    """
    if not names:
        entry = _own(bootstrap, _named(entity))
        names = () if entry is None else tuple(entry.quotas)
        if not names:
            click.echo(f"There are no quotas of {_describe(entity)}.")
            return
    for name in names:
        _check(name)
    _alter(bootstrap, entity, dict.fromkeys(names))
    click.echo(f"Removed {', '.join(names)} of {_describe(entity)}.")


@quotas.command("list")
@entity_options
@output_option
@bootstrap_option
def list_quotas(entity: Mapping[str, str | None], as_json: bool, bootstrap: str) -> None:
    """List all quotas, or those of entities with these names.

    \b
      kqueue quotas list
      kqueue quotas list --user ann
      kqueue quotas list --default-ip --json
    """
    from kqueue.client.calls.quotas import DEFAULT as DEFAULT_MATCH
    from kqueue.client.calls.quotas import EXACT, QuotaMatch

    matches = [
        QuotaMatch(kind, DEFAULT_MATCH) if name is None else QuotaMatch(kind, EXACT, name)
        for kind, name in entity.items()
    ]
    with own_client(bootstrap) as client:
        entries = client.cluster.describe_quotas(matches)
    _print(entries, as_json)


@quotas.command()
@click.option("--user", metavar="NAME", default="ANONYMOUS", show_default=True, help="The client's user.")
@click.option("--client-id", metavar="NAME", default="", help="The client's id.")
@output_option
@bootstrap_option
def show(user: str, client_id: str, as_json: bool, bootstrap: str) -> None:
    """Show which quotas hold for a client, and from which entity each comes.

    \b
      kqueue quotas show --user ann --client-id app

    Clients of a listener without authentication are the user ANONYMOUS.
    """
    from kqueue.security.quotas import CLIENT_QUOTAS

    with own_client(bootstrap) as client:
        entries = client.cluster.describe_quotas()
    known = {tuple(entry.entity.get(kind, ...) for kind in TYPES[:2]): entry for entry in entries}
    order = [
        *((name, other) for name in (user, None) for other in (client_id, None, ...)),
        (..., client_id),
        (..., None),
    ]
    held: list[QuotaEntry] = []
    for quota in CLIENT_QUOTAS:
        holder = next((known[key] for key in order if key in known and quota in known[key].quotas), None)
        if holder is not None:
            held.append(holder._replace(quotas={quota: holder.quotas[quota]}))
    _print(held, as_json)


def _parse(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    _check(name)
    try:
        return name, float(value)
    except ValueError:
        raise click.UsageError(f"expected QUOTA=VALUE with a number, found {text!r}") from None


def _check(name: str) -> None:
    if name not in QUOTAS:
        lines = "\n".join(f"  {known}  {about}" for known, about in QUOTAS.items())
        raise click.UsageError(f"there is no quota {name!r}; expected one of\n{lines}")


def _named(entity: Mapping[str, str | None]) -> Mapping[str, str | None]:
    if not entity:
        raise click.UsageError("say of whom: --user, --client-id, --ip, or a default of them")
    return entity


def _own(bootstrap: str, entity: Mapping[str, str | None]) -> QuotaEntry | None:
    from kqueue.client.calls.quotas import ANY, QuotaMatch

    with own_client(bootstrap) as client:
        entries = client.cluster.describe_quotas([QuotaMatch(kind, ANY) for kind in entity], strict=True)
    return next((entry for entry in entries if entry.entity == entity), None)


def _alter(bootstrap: str, entity: Mapping[str, str | None], changes: Mapping[str, float | None]) -> None:
    from kqueue.client.calls.quotas import QuotaAlteration

    with own_client(bootstrap) as client:
        [(code, message)] = client.cluster.alter_quotas([QuotaAlteration(_named(entity), changes)])
    if code:
        raise click.ClickException(f"the quotas of {_describe(entity)} were refused: {explain_code(code, message)}")


def _describe(entity: Mapping[str, str | None]) -> str:
    return ", ".join(f"{kind} {DEFAULT if name is None else repr(name)}" for kind, name in entity.items())


def _print(entries: Sequence[QuotaEntry], as_json: bool) -> None:
    if as_json:
        print_json([{"entity": dict(entry.entity), "quotas": dict(entry.quotas)} for entry in entries])
        return
    rows = [
        (*_cells(entry.entity), quota, f"{value:.15g}")
        for entry in sorted(entries, key=lambda entry: _cells(entry.entity))
        for quota, value in sorted(entry.quotas.items())
    ]
    click.echo(columns(HEAD, rows) if rows else "There are no quotas.")


def _cells(entity: Mapping[str, str | None]) -> list[str]:
    return ["-" if kind not in entity else entity[kind] or DEFAULT for kind in TYPES]
