"""ACLs of kqueue as clients and tools of Kafka see them, beside Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat_tests.kafka.acl_scenarios import SCENARIOS
from compat_tests.kafka.admin_scenarios import NODE, Scenario
from compat_tests.kafka.node import SETTINGS, Kafka
from compat_tests.kafka.serving import serving
from compat_tests.kafka.test_admin_answers import answers
from compat_tests.kafka.tool_host import ToolHost

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SECURITY = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def brokers(formatted: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A Kafka and a kqueue with authorizers, of which every client is a super user."""
    node = Kafka(tmp_path_factory.mktemp("acls") / "kafka", {**SETTINGS, **SECURITY}).copy_from(formatted)
    keywords = {name.replace(".", "_"): value for name, value in SECURITY.items()}
    with node, serving(tmp_path_factory.mktemp("kqueue"), node_id=NODE, **keywords) as broker:
        yield node.bootstrap, broker.bootstrap


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_answers_are_kafkas(brokers: tuple[str, str], scenario: Scenario) -> None:
    kafkas, ours = (answers(bootstrap, scenario) for bootstrap in brokers)
    assert ours == kafkas


@pytest.fixture(params=["kafka", "kqueue"])
def tool(request: pytest.FixtureRequest, tools: ToolHost, brokers: tuple[str, str]) -> Tool:
    """Run kafka-acls on each of the brokers; it must end with `status`."""
    bootstrap = brokers[request.param == "kqueue"]

    def run(*arguments: str, status: int = 0) -> str:
        done = tools.run("org.apache.kafka.tools.AclCommand", "--bootstrap-server", bootstrap, *arguments)
        assert done.status == status, done.stdout + done.stderr
        return done.stdout

    return run


def test_kafka_acls_adds_lists_and_removes(tool: Tool) -> None:
    tool("--add", "--allow-principal", "User:ann", "--producer", "--topic", "orders", "--idempotent")
    tool("--add", "--allow-principal", "User:bob", "--consumer", "--topic", "orders", "--group", "billing")
    prefix = ("--topic", "ord", "--resource-pattern-type", "prefixed")
    tool("--add", "--deny-principal", "User:eve", "--deny-host", "10.0.0.7", "--operation", "Read", *prefix)
    listed = tool("--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert "resourceType=TOPIC, name=orders, patternType=LITERAL" in listed
    assert "resourceType=TOPIC, name=ord, patternType=PREFIXED" in listed
    assert "(principal=User:ann, host=*, operation=WRITE, permissionType=ALLOW)" in listed
    assert "(principal=User:eve, host=10.0.0.7, operation=READ, permissionType=DENY)" in listed
    assert "principal=User:ann" not in tool("--list", "--group", "billing")
    everything = tool("--list")
    assert everything.count("principal=User:ann") == 4
    assert everything.count("principal=User:bob") == 3
    tool("--remove", "--topic", "orders", "--resource-pattern-type", "match", "--force")
    left = tool("--list")
    assert "name=orders" not in left
    assert left.count("principal=") == 2
    for resource in (("--group", "billing"), ("--cluster",)):
        tool("--remove", *resource, "--force")
    assert "principal=" not in tool("--list")
