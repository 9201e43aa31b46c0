from __future__ import annotations

import json

from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.tests.tables import for_each
from kqueue.wire.error_guide import ERROR_ADVICE


def run(*args: str) -> Result:
    return CliRunner().invoke(kqueue, ["errors", *args])


@for_each("text", ["19", "NOT_ENOUGH_REPLICAS", "NotEnoughReplicasException", "NotEnoughReplicasError"])
def test_an_error_is_found_by_each_of_its_names(text: str) -> None:
    assert run(text).output.startswith(
        "NOT_ENOUGH_REPLICAS (19, retriable)\n    When: fewer replicas are in sync than `min.insync.replicas`"
    )


def test_a_part_of_names_lists_all_that_have_it() -> None:
    names = [row["name"] for row in json.loads(run("fenced", "-o", "json").output)]
    assert {"PRODUCER_FENCED", "FENCED_LEADER_EPOCH"} <= set(names)
    assert all("FENCED" in name for name in names)


def test_without_a_text_all_are_listed() -> None:
    assert len(json.loads(run("-o", "json").output)) == len(ERROR_ADVICE)
    assert run().output.count("    What to do: ") == len(ERROR_ADVICE)


@for_each(
    "text,message",
    [
        ("NOT_ENOUGH_RAPLICAS", "Error: there is no error 'NOT_ENOUGH_RAPLICAS'"),
        ("4711", "Error: there is no error '4711'; `kqueue errors` lists all"),
        ("DUPLICATE_VOTER", "Error: kqueue answers no request with the error 'DUPLICATE_VOTER'"),
    ],
)
def test_an_unknown_error_is_refused(text: str, message: str) -> None:
    result = run(text)
    assert result.exit_code == 1
    assert message in result.output
