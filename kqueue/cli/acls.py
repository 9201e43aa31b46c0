"""`kqueue acls`: add, remove and list ACLs, with the flags of kafka-acls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kqueue.base.text import counted
from kqueue.cli.acl_options import Selection, bindings_of, filters_of, role_options, selection_options
from kqueue.cli.connect import bootstrap_option, explain_code, own_client
from kqueue.cli.offline_store import folder_option, offline_store
from kqueue.cli.output import columns, output_option, print_json

if TYPE_CHECKING:
    from kqueue.security.acls import AclBinding, AclFilter

F = TypeVar("F", bound=Callable[..., Any])
HEAD = ("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "PATTERN", "NAME", "HOST")


@click.group()
def acls() -> None:
    """Say who may do what. The broker needs authorizer.class.name; what no ACL allows is denied.

    \b
      kqueue acls add --allow-principal User:ann --producer --topic orders
      kqueue acls add --allow-principal User:bob --consumer --topic orders --group billing
      kqueue acls add --deny-principal User:eve --operation All --topic '*'
      kqueue acls list --topic orders --resource-pattern-type match
      kqueue acls remove --allow-principal User:ann --operation Write --topic orders
    """


@acls.command()
@selection_options
@role_options
@output_option
@folder_option
@bootstrap_option
def add(bootstrap: str, folder: Path | None, as_json: bool, **options: Any) -> None:
    """Add ACLs: each principal may, or may not, do each operation on each resource.

    \b
      kqueue acls add --allow-principal User:ann --operation Read --topic orders
      kqueue acls add --allow-principal User:ann --topic eu. --resource-pattern-type prefixed
      kqueue acls add --allow-principal 'User:*' --allow-host 10.0.0.7 --operation Read --topic news
      kqueue acls add --folder kqueue-data --allow-principal User:admin --operation Alter --cluster

    With --folder they are there when the broker starts for the first time. One that exists already
    stays as it is.
    """
    selection = Selection(**options)
    bindings = bindings_of(selection)
    if not bindings:
        raise click.UsageError("say for whom: --allow-principal or --deny-principal")
    if folder is None:
        _create(bootstrap, bindings)
    else:
        _store(folder, dict.fromkeys(bindings, True))
    _print(bindings, as_json, "Added")


@acls.command()
@selection_options
@role_options
@click.option("--force", is_flag=True, help="Do not ask.")
@output_option
@folder_option
@bootstrap_option
def remove(bootstrap: str, folder: Path | None, as_json: bool, force: bool, **options: Any) -> None:
    """Remove ACLs: those that `add` with the same flags adds, or, without principals, all of the
    named resources.

    \b
      kqueue acls remove --allow-principal User:ann --operation Write --topic orders
      kqueue acls remove --topic orders
      kqueue acls remove --topic orders --resource-pattern-type match --force
    """
    selection = Selection(**options)
    filters = filters_of(selection)
    if not force:
        what = "these ACLs" if selection.principals else "all ACLs of these resources"
        click.echo("\n".join(map(_describe, filters)), err=True)
        click.confirm(f"Remove {what}?", abort=True, err=True)
    if folder is None:
        with own_client(bootstrap) as client:
            removed = client.cluster.delete_acls(filters)
    else:
        removed = [binding for binding in _stored(folder) if any(row.matches(binding) for row in filters)]
        _store(folder, dict.fromkeys(removed, False))
    _print(removed, as_json, "Removed")


@acls.command("list")
@selection_options
@click.option("--principal", "listed", multiple=True, metavar="TYPE:NAME", help="Only of this one; may be repeated.")
@output_option
@folder_option
@bootstrap_option
def list_acls(bootstrap: str, folder: Path | None, as_json: bool, listed: tuple[str, ...], **options: Any) -> None:
    """List the ACLs of the named resources, or all.

    \b
      kqueue acls list
      kqueue acls list --topic orders
      kqueue acls list --topic orders --resource-pattern-type match
      kqueue acls list --principal User:ann --json

    `match` finds all that apply to the resource: its own, prefixed ones, and those of `*`.
    """
    filters = filters_of(Selection(**options), needs_resource=False)
    if folder is None:
        with own_client(bootstrap) as client:
            rows = [client.cluster.describe_acls(acl_filter) for acl_filter in filters]
        matching = list(dict.fromkeys(binding for bindings in rows for binding in bindings))
    else:
        matching = [binding for binding in _stored(folder) if any(row.matches(binding) for row in filters)]
    _print(sorted(binding for binding in matching if not listed or binding.principal in listed), as_json)


def _create(bootstrap: str, bindings: Sequence[AclBinding]) -> None:
    with own_client(bootstrap) as client:
        outcomes = client.cluster.create_acls(bindings)
    refused = [(binding, one) for binding, one in zip(bindings, outcomes, strict=True) if one.code]
    for binding, (code, message) in refused:
        click.echo(f"Error: {binding}: {explain_code(code, message)}", err=True)
    if refused:
        raise click.exceptions.Exit(1)


def _stored(folder: Path) -> list[AclBinding]:
    from kqueue.broker.access.acls import PREFIX
    from kqueue.security.acls import binding_of_json

    with offline_store(folder) as store:
        return [binding_of_json(entry.value) for entry in store.read(PREFIX).values()]


def _store(folder: Path, changes: dict[AclBinding, bool]) -> None:
    """Store the ACLs that are True, and delete those that are False."""
    from kqueue.broker.access.acls import PREFIX

    keys = {f"{PREFIX}{binding.id}": binding for binding in changes}
    puts = {key: binding.to_json().encode() for key, binding in keys.items() if changes[binding]}
    with offline_store(folder) as store:
        store.commit({}, puts, keys.keys() - puts.keys())


def _print(bindings: Sequence[AclBinding], as_json: bool, done: str | None = None) -> None:
    if as_json:
        print_json([_as_dict(binding) for binding in bindings])
        return
    if done is not None:
        click.echo(f"{done} {counted(len(bindings), 'ACL')}{':' if bindings else '.'}")
    if bindings or done is None:
        click.echo(columns(HEAD, [list(_as_dict(binding).values()) for binding in bindings]))


def _as_dict(binding: AclBinding) -> dict[str, str]:
    return {
        "principal": binding.principal,
        "permission": binding.permission.name,
        "operation": binding.operation.name,
        "resource_type": binding.resource_type.name,
        "pattern_type": binding.pattern_type.name,
        "name": binding.name,
        "host": binding.host,
    }


def _describe(acl_filter: AclFilter) -> str:
    words = [f"{acl_filter.resource_type.name} {acl_filter.name or '(all)'} ({acl_filter.pattern_type.name})"]
    if acl_filter.principal is not None:
        words.append(f"{acl_filter.principal} {acl_filter.permission.name} {acl_filter.operation.name}")
        words.append(f"from {acl_filter.host}")
    return "  " + ", ".join(words)
