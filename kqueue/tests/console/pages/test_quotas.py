from __future__ import annotations

import pytest

from kqueue.client import Client
from kqueue.console.pages.quotas import parse_value
from kqueue.tests.console.browser import Browser, words

OF_USER = {"user-kind": "named", "user": "an<n>", "client-id-kind": "default", "quota": "producer_byte_rate"}


def test_a_quota_is_set_listed_and_removed(editor: Browser, client: Client) -> None:
    response = editor.submit("/quotas/set", OF_USER | {"value": "1024"})
    assert "Set producer_byte_rate of client-id (default), user an<n>." in words(response.text)
    [entry] = client.cluster.describe_quotas()
    assert dict(entry.entity) == {"user": "an<n>", "client-id": None}
    assert entry.quotas == {"producer_byte_rate": 1024}
    assert "an<n> default – producer_byte_rate bytes per second of Produce requests 1,024" in editor.text("/quotas")
    assert "Removed" in editor.submit("/quotas/remove", OF_USER).text
    assert client.cluster.describe_quotas() == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"user-kind": "none", "client-id-kind": "none"}, "Say of whom"),
        ({"user": ""}, "give its name"),
        ({"quota": "colour"}, "expected one of"),
        ({"value": "many"}, "a number above 0"),
        ({"value": "nan"}, "a number above 0"),
        ({"ip-kind": "default"}, ""),
    ],
)
def test_a_quota_that_is_refused_is_a_sentence(editor: Browser, change: dict[str, str], reason: str) -> None:
    response = editor.submit("/quotas/set", OF_USER | {"value": "1024"} | change)
    assert response.status_code == 400
    assert reason in words(response.text)


@pytest.mark.parametrize("text", ["", "0", "-1", "inf", "nan", "1e999", "x"])
def test_only_a_number_above_0_is_a_bound(text: str) -> None:
    with pytest.raises(ValueError, match="above 0"):
        parse_value(text)
