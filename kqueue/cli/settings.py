"""`kqueue settings`: every setting of kqueue and Kafka 4.3, with its effect."""

from __future__ import annotations

import json

import click

EFFECTS = ("does", "warned", "refused")


@click.command()
@click.argument("text", default="")
@click.option("--effect", type=click.Choice(EFFECTS), help="Only settings with this effect.")
@click.option("--scope", type=click.Choice(("broker", "topic")), help="Only settings of brokers, or of topics.")
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
    """
    from kqueue.base.settings import format_value
    from kqueue.config.catalog import CATALOG
    from kqueue.config.kafka_settings import all_settings

    matching = [line for line in all_settings(CATALOG) if text in line.name]
    lines = [line for line in matching if effect in (None, line.effect.value) and scope in (None, line.scope)]
    if as_json:
        rows = {"broker": CATALOG.broker, "topic": CATALOG.topic}
        declared = [rows[line.scope].get(line.name) for line in lines]
        click.echo(
            json.dumps(
                [
                    {
                        "name": line.name,
                        "scope": line.scope,
                        "effect": line.effect.value,
                        "type": None if row is None else row.kind.name,
                        "default": None if row is None else format_value(row.default),
                        "text": line.about,
                    }
                    for line, row in zip(lines, declared, strict=True)
                ],
                indent=1,
            )
        )
        return
    for line in lines:
        click.echo(f"{line.name} ({line.scope}, {line.effect.value})\n    {line.about}")
