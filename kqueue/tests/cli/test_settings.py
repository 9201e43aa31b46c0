from __future__ import annotations

import json

from click.testing import CliRunner

from kqueue.cli.app import kqueue


def run(*args: str) -> str:
    result = CliRunner().invoke(kqueue, ["settings", *args])
    assert result.exit_code == 0, result.output
    return result.output


def test_settings_are_listed_with_their_effect_and_its_reason() -> None:
    assert run("preallocate", "--scope", "topic").startswith("preallocate (topic, warned)\n    ")
    clusters = run("min.insync", "--scope", "topic")
    assert clusters.startswith("min.insync.replicas (topic, does)\n    In-sync replicas, ")
    assert clusters.endswith(" No effect on a single broker.\n    Default: 1 (int)\n")
    assert run("log.retention.hours").startswith(
        "log.retention.hours (broker, does)\n    Default of the topics' retention.ms."
    )
    assert run("num.io.threads").startswith(
        "num.io.threads (broker, warned, cluster-wide)\n    Threads that process requests; see background.threads."
    )
    assert run("log.retention.ms").startswith("log.retention.ms (broker, does, cluster-wide)")
    assert run("consumer.session.timeout.ms", "--scope", "group").startswith(
        "consumer.session.timeout.ms (group, does)"
    )
    assert run("", "--scope", "client-metrics").count("(client-metrics, does)") == 3
    assert run("create.topic.policy") == (
        "create.topic.policy.class.name (broker, refused)\n"
        "    Asks for a policy that checks topics and settings, which kqueue does not have.\n"
    )


def test_settings_are_chosen_by_effect_and_scope() -> None:
    assert {line["effect"] for line in json.loads(run("--json"))} == {"does", "warned", "refused"}
    assert {line["effect"] for line in json.loads(run("--effect", "refused", "--json"))} == {"refused"}
    assert {line["scope"] for line in json.loads(run("--scope", "topic", "--json"))} == {"topic"}


def test_json_has_types_and_defaults_of_what_is_declared() -> None:
    (row,) = json.loads(run("segment.bytes", "--scope", "topic", "--json"))
    assert row == {
        "name": "segment.bytes",
        "scope": "topic",
        "effect": "does",
        "type": "INT",
        "default": "1073741824",
        "update_mode": None,
        "text": "Roll when the active segment would exceed this size.",
    }
    (row,) = json.loads(run("create.topic.policy", "--json"))
    assert (row["type"], row["default"]) == (None, None)
    modes = {row["name"]: row["update_mode"] for row in json.loads(run("log.cleaner", "--json"))}
    assert (modes["log.cleaner.threads"], modes["log.cleaner.enable"]) == ("cluster-wide", "read-only")


def test_setting_is_shown_with_default_and_meaning() -> None:
    shown = run("log.retention.ms").splitlines()
    assert len(shown) == 3, "only that one, though other names contain it"
    assert shown[2].startswith("    Default: ")
    assert run("segment.bytes", "--scope", "topic").splitlines()[2] == "    Default: 1073741824 (int)"


def test_a_setting_that_does_not_exist_is_reported_with_the_nearest() -> None:
    result = CliRunner().invoke(kqueue, ["settings", "log.retention.mss"])
    assert result.exit_code == 1
    assert result.stderr == "Error: there is no setting 'log.retention.mss'; did you mean 'log.retention.ms'?\n"
