"""`kqueue settings`: every setting of kqueue and Kafka 4.3, with its effect."""

from __future__ import annotations

import click

from kqueue.base.names import did_you_mean
from kqueue.base.settings import Scope, Setting, format_value
from kqueue.cli.completion import complete_settings
from kqueue.cli.output import output_option, print_json

EFFECTS = ("does", "warned", "refused")


@click.command()
@click.argument("text", default="", shell_complete=complete_settings())
@click.option("--effect", type=click.Choice(EFFECTS), help="Only settings with this effect.")
@click.option("--scope", type=click.Choice([scope.value for scope in Scope]), help="Only settings of this scope.")
@output_option
def settings(text: str, effect: str | None, scope: str | None, as_json: bool) -> None:
    """Show a setting with its default and meaning, or list those whose names contain TEXT.

    \b
      kqueue settings
      kqueue settings log.retention.ms
      kqueue settings retention
      kqueue settings segment.bytes -o json
      kqueue settings --effect refused

    does: works as in Kafka, or as the text says. warned: accepted without an effect, with one
    warning. refused: asks for a guard or a limit that kqueue does not have; a broker does not start
    with it.

    Settings of a broker that name no update mode need a restart; `cluster-wide` ones can be changed
    for one broker or for all while they run, as all settings of topics and groups can: `kqueue
    configs alter`.
    """
    from kqueue.config.catalog import CATALOG
    from kqueue.config.kafka_settings import all_settings

    known = all_settings(CATALOG)
    matching = [line for line in known if line.name == text] or [line for line in known if text in line.name]
    if not matching:
        names = [line.name for line in known]
        remedy = did_you_mean(text, names) or "; `kqueue settings` lists all"
        raise click.ClickException(f"there is no setting {text!r}{remedy}")
    lines = [line for line in matching if effect in (None, line.effect.value) and scope in (None, line.scope)]
    declared = [CATALOG.rows(Scope(line.scope)).get(line.name) for line in lines]
    if as_json:
        print_json(
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
            ]
        )
        return
    for line, row in zip(lines, declared, strict=True):
        mode = "" if row is None or row.scope is not Scope.BROKER or row.is_read_only else f", {_update_mode(row)}"
        click.echo(f"{line.name} ({line.scope}, {line.effect.value}{mode})\n    {line.about}")
        if row is not None:
            click.echo(f"    {_type_and_default(row)}")


def _type_and_default(row: Setting) -> str:
    default = format_value(row.default)
    kind = row.kind.name.lower()
    return f"Default: {default!r} ({kind})" if default == "" else f"Default: {default or 'none'} ({kind})"


def _update_mode(row: Setting | None) -> str | None:
    """Return Kafka's name of how a broker setting can change; None: of undeclared settings, and
    of those that can always change.
    """
    return row.dynamic.value if row is not None and row.scope is Scope.BROKER else None
