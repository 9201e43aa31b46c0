from __future__ import annotations

from pathlib import Path

import click
import pytest

from kqueue.cli.tier.listing import list_tier
from kqueue.cli.tier.tier_options import complete_tier_topics, moment
from kqueue.tests.cli.tier.conftest import Run
from kqueue.tier.stores.contract import TierStore


@pytest.mark.parametrize("command", ["list", "verify"])
def test_what_is_not_there_is_said_in_a_sentence(run: Run, store: TierStore, tmp_path: Path, command: str) -> None:
    (tmp_path / "empty").mkdir()

    for args, status, expected in (
        ([f"file://{tmp_path}/empty"], 2, "is no tier: it has neither kqueue-tier.json nor topics."),
        ([store.location, "--topic", "order"], 2, "has no topic order; did you mean 'orders'?"),
        (["orders-0"], 1, "expected the URL of an object store"),
        (["file://host/x"], 1, "absolute path"),
    ):
        result = run(command, *args)
        assert (result.exit_code, expected in result.stderr) == (status, True), result.output


def test_topics_are_completed_from_the_tier(store: TierStore) -> None:
    context = click.Context(list_tier)
    parameter = list_tier.params[1]
    context.params["url"] = store.location
    assert [item.value for item in complete_tier_topics(context, parameter, "or")] == ["orders"]
    assert complete_tier_topics(context, parameter, "x") == []
    context.params["url"] = "nonsense"
    assert complete_tier_topics(context, parameter, "") == []


def test_moments_are_text_for_people() -> None:
    assert moment(None) == "-"
    assert moment(-1) == "-"
    assert moment(0) == "1970-01-01T00:00:00.000Z"
    assert moment(2**62) == str(2**62)
