"""Arguments of `kqueue pipeline archive` and `replay`; the jobs run in `compat_tests/spark`."""

from __future__ import annotations

from click.testing import CliRunner

from kqueue.cli.pipeline import archive as module
from kqueue.tests.tables import for_each


def test_an_archive_needs_topics_or_a_pattern() -> None:
    result = CliRunner().invoke(module.archive, ["kept"])
    assert result.exit_code == 2
    assert "say what to archive: --topic (once or more), or --pattern" in result.output


@for_each("option", ["--since", "--until"])
def test_text_without_a_time_is_refused(option: str) -> None:
    result = CliRunner().invoke(module.archive, ["kept", "--topic", "orders", option, "soon"])
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': 'soon' is not a time" in result.output


@for_each(
    "command, option, value",
    [
        (module.archive, "--compression", "lzo"),
        (module.archive, "--isolation", "none"),
        (module.replay, "--delivery", "twice"),
    ],
)
def test_choices_are_checked(command: object, option: str, value: str) -> None:
    result = CliRunner().invoke(command, ["kept", option, value])  # type: ignore[arg-type]
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': '{value}' is not one of" in result.output
