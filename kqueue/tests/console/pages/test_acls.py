from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.client import Client
from kqueue.tests.console.browser import Browser, Visit, words

ACL = {
    "resource_type": "TOPIC",
    "name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:ann<b>",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    with Broker(settings={"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}) as broker:
        yield broker


@pytest.fixture
def keeper(guarded: Broker, visit: Visit) -> Browser:
    return visit(guarded.bootstrap, allow_changes=True)


def test_an_acl_is_added_listed_and_removed(keeper: Browser, guarded: Broker) -> None:
    response = keeper.submit("/acls/add", ACL)
    assert "Created the ACL: User:ann<b> allow read topic:orders." in words(response.text)
    assert "<b>" not in response.text
    assert "User:ann<b> allow read topic literal orders *" in keeper.text("/acls")
    with Client(guarded.bootstrap) as client:
        [binding] = client.cluster.describe_acls()
        assert binding.principal == "User:ann<b>"
        assert "Deleted the ACL" in keeper.submit("/acls/remove", ACL).text
        assert client.cluster.describe_acls() == []
    assert "did not exist any more" in keeper.submit("/acls/remove", ACL).text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"resource_type": "HOUSE"}, "resource type: expected one of"),
        ({"operation": "ANY"}, "Invalid operation ANY"),
        ({"principal": "ann"}, "ann"),
        ({"name": ""}, "not empty"),
        ({"permission": ""}, "permission: expected one of"),
    ],
)
def test_an_acl_that_is_not_valid_is_a_sentence(keeper: Browser, change: dict[str, str], reason: str) -> None:
    response = keeper.submit("/acls/add", ACL | change)
    assert response.status_code == 400
    assert reason in words(response.text)


def test_an_acl_of_the_cluster_needs_no_name(keeper: Browser) -> None:
    cluster = ACL | {"resource_type": "CLUSTER", "name": "", "operation": "ALTER"}
    assert "Created the ACL" in keeper.submit("/acls/add", cluster).text
    keeper.submit("/acls/remove", cluster | {"name": "kafka-cluster"})


def test_a_broker_without_an_authorizer_says_so(browser: Browser) -> None:
    response = browser.get("/acls")
    assert response.status_code == 409
    assert "no authorizer" in response.text
