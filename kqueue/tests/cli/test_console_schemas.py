from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from kqueue.cli.console_schemas import schema_settings

Kq = Callable[..., Result]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--schema-registry-ca", "x"), "needs --schema-registry"),
        (("--value-schema", "x"), "belong together"),
        (("--value-format", "avro"), "belong together"),
        (("--value-format", "avro", "--value-schema", "x", "--value-message", "m"), "needs --value-format protobuf"),
    ],
)
def test_options_that_need_others_are_refused(kq: Kq, arguments: tuple[str, ...], words: str) -> None:
    result = kq("console", *arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_without_options_there_are_no_schemas() -> None:
    assert schema_settings(None, None, None, None, None) is None
