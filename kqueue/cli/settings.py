"""`kqueue settings`: every setting of kqueue and Kafka 4.3, with its effect."""

from __future__ import annotations

import json

import click

from kqueue.base.settings import Scope, Setting

EFFECTS = ("does", "warned", "refused")


@click.command()
@click.argument("text", default="")
@click.option("--effect", type=click.Choice(EFFECTS), help="Only settings with this effect.")
@click.option("--scope", type=click.Choice([scope.value for scope in Scope]), help="Only settings of this scope.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with types and defaults.")
def settings(text: str, effect: str | None, scope: str | None, as_json: bool) -> None:
    """List the settings whose names contain TEXT.

    \b
      kqueue settings
      kqueue settings retention
      kqueue settings --effect refused

    does: works as in Kafka, or as the text says. warned: accepted without an effect, with one
    warning. refused: asks for a guard or a limit that kqueue does not have; a broker does not start
    with it.

    Settings of a broker that name no update mode need a restart; `cluster-wide` ones can be changed
    for one broker or for all while they run, as all settings of topics and groups can: `kqueue
    configs alter`.
    """
    from kqueue.base.settings import format_value
    from kqueue.config.catalog import CATALOG
    from kqueue.config.kafka_settings import all_settings

    matching = [line for line in all_settings(CATALOG) if text in line.name]
    lines = [line for line in matching if effect in (None, line.effect.value) and scope in (None, line.scope)]
    declared = [CATALOG.rows(Scope(line.scope)).get(line.name) for line in lines]
    if as_json:
        click.echo(
            json.dumps(
                [
                    {
                        "name": line.name,
                        "scope": line.scope,
                        "effect": line.effect.value,
                        "type": None if row is None else row.kind.name,
                        "default": None if row is None else format_value(row.default),
                        "update_mode": _update_mode(row),
                        "text": line.about,
                    }
                    for line, row in zip(lines, declared, strict=True)
                ],
                indent=1,
            )
        )
        return
    for line, row in zip(lines, declared, strict=True):
        mode = "" if row is None or row.scope is not Scope.BROKER or row.is_read_only else f", {_update_mode(row)}"
        click.echo(f"{line.name} ({line.scope}, {line.effect.value}{mode})\n    {line.about}")


def _update_mode(row: Setting | None) -> str | None:
    """Return Kafka's name of how a broker setting can change; None: of undeclared settings, and
    of those that can always change.
    """
    return row.dynamic.value if row is not None and row.scope is Scope.BROKER else None
