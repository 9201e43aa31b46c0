from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from kqueue.cli.pipeline.value_options import source_values, value_options


@click.command()
@value_options
def command(values: dict[str, str]) -> None:
    click.echo(source_values({"subscribe": "orders"}, values))


def test_options_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(command, []).output == "{'subscribe': 'orders'}\n"
    given = ["--value-format", "avro", "--value-schema", "order.avsc", "--value-subject", "s"]
    monkeypatch.setenv("KQUEUE_REGISTRY_TOKEN", "secret")
    result = CliRunner().invoke(command, given[:4])
    assert result.output == "{'subscribe': 'orders', 'valueFormat': 'avro', 'valueSchema': 'order.avsc'}\n"
    result = CliRunner().invoke(command, [*given[:2], "--value-registry", "http://host:8081"])
    assert "'valueSchemaRegistryToken': 'secret'" in result.output
    result = CliRunner().invoke(command, given)
    assert result.exit_code == 2
    assert result.stderr.endswith("Error: valueSchemaSubject needs valueSchemaRegistry, the URL\n")
