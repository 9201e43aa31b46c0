from __future__ import annotations

import logging

import pytest

from kqueue.client import Client, NewTopic, ResourceType
from kqueue.tests.console.browser import Browser


def test_settings_of_a_topic_have_value_source_default_and_meaning(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("set", 1, settings={"retention.ms": "60000"})])
    text = browser.text("/topics/set/settings?q=retention.ms")
    assert "60000 this topic 604800000" in text
    changed = browser.text("/topics/set/settings?changed=1")
    assert "retention.ms" in changed
    assert "segment.index.bytes" not in changed


def test_a_setting_is_found_by_its_meaning(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("set-b", 1)])
    assert "No setting matches." not in browser.text("/topics/set-b/settings?q=compact")
    assert "No setting matches." in browser.text("/topics/set-b/settings?q=no-such-word")


def test_a_setting_of_a_topic_is_changed_and_reset(
    editor: Browser, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.create_topics([NewTopic("set-c", 1)])
    path = "/topics/set-c/settings/retention.ms"

    def source() -> str:
        return client.configs(ResourceType.TOPIC, ["set-c"])["set-c"]["retention.ms"].source

    with caplog.at_level(logging.INFO, "kqueue.console.audit"):
        assert "Changed retention.ms" in editor.submit(path, {"act": "set", "value": "5000"}).text
    assert source() == "DYNAMIC_TOPIC_CONFIG"
    assert 'value="5000"' in caplog.text
    assert "After a reset 604800000 (default)" in editor.text(path)
    refused = editor.submit(path, {"act": "set", "value": "soon"})
    assert refused.status_code == 400
    assert 'value="soon"' in refused.text
    assert "Reset retention.ms" in editor.submit(path, {"act": "reset"}).text
    assert source() == "DEFAULT_CONFIG"


def test_a_setting_of_a_broker_changes_at_run_time_or_is_read_only(editor: Browser, client: Client) -> None:
    path = "/brokers/1/settings/log.retention.ms"
    assert "Changed log.retention.ms" in editor.submit(path, {"act": "set", "value": "7000000"}).text
    assert "this broker, at run time" in editor.text(path)
    editor.submit(path, {"act": "reset"})
    assert "with a restart of the broker only" in editor.text("/brokers/1/settings/log.dirs")


def test_settings_of_all_brokers_are_shown(editor: Browser) -> None:
    assert editor.get("/brokers/settings").status_code == 200


def test_a_setting_that_does_not_exist_is_a_404(browser: Browser, client: Client) -> None:
    client.create_topics([NewTopic("set-d", 1)])
    assert browser.get("/topics/set-d/settings/no.such").status_code == 404
    assert browser.get("/brokers/77/settings").status_code == 404
