"""docs/testing-reference.md is what the signatures and docstrings say.

`python -m kqueue.tests.docs.test_testing_reference` writes it.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import kqueue
from kqueue import testing
from kqueue.embedded.aio import AsyncBroker
from kqueue.embedded.clock import BrokerClock
from kqueue.embedded.cluster_aio import AsyncCluster
from kqueue.embedded.cluster_broker import ClusterBroker
from kqueue.embedded.cluster_groups import ClusterGroups
from kqueue.embedded.inspection.groups import Group, Groups, Member
from kqueue.embedded.inspection.records import Record
from kqueue.embedded.inspection.topics import Backlog, Topic, Topics
from kqueue.embedded.request_log import RecordedRequest, RequestLog
from kqueue.testing import NETWORK_PROFILES, NetworkProfile, pytest_plugin
from kqueue.testing.fault_injection import Faults, Fired
from kqueue.testing.fault_types import Fault, NetworkPartition
from kqueue.tests.tables import for_each

PAGE = Path(__file__).parents[3] / "docs" / "testing-reference.md"
WIDTH = 116
HEAD = """\
# Reference of the test kit

Derived from the code: `python -m kqueue.tests.docs.test_testing_reference` writes this page. How the parts are used
is in [Testing with kqueue](testing.md).
"""


class Section(NamedTuple):
    """A class of the page. `base`: whose members are not repeated. `calls_of`: what documents them.

    `path`: how users reach it.
    """

    path: str
    kind: type
    base: type | None = None
    is_made: bool = False
    calls_of: str | None = None


SECTIONS = (
    Section("kqueue.Broker", kqueue.Broker, is_made=True),
    Section("kqueue.Cluster", kqueue.Cluster, is_made=True),
    Section("cluster[0]", ClusterBroker, kqueue.Broker),
    Section("broker.aio", AsyncBroker, calls_of="`kqueue.Broker` or of a topic"),
    Section("cluster.aio", AsyncCluster, calls_of="`kqueue.Cluster`"),
    Section("broker.clock", BrokerClock),
    Section("broker.topics", Topics),
    Section('broker.topics["orders"]', Topic),
    Section("records()", Record),
    Section("backlog", Backlog),
    Section("broker.groups", Groups),
    Section("cluster.groups", ClusterGroups),
    Section('broker.groups["mail"]', Group),
    Section("members", Member),
    Section("broker.requests", RequestLog),
    Section("broker.requests()", RecordedRequest),
    Section("kqueue.testing.faults(broker)", Faults),
    Section("fault", Fault),
    Section("partition_network()", NetworkPartition, Fault),
    Section("fired", Fired),
    Section("kqueue.testing.NetworkProfile", NetworkProfile, is_made=True),
)
NOT_FOR_TESTS = {
    kqueue.Cluster: {"open_access", "running_thread"},
    ClusterBroker: {"knows"},
    Topic: {"append_lines", "chosen_partitions"},
    RequestLog: {"record", "count_bytes", "broker", "bytes"},
    RecordedRequest: {"response_encoded", "drop_bodies"},
    Fault: {"strikes"},
    NetworkPartition: {"begin", "apply"},
}
"""Public names that other modules of kqueue use, and no test."""
LISTS = re.compile(r"(Args|Arguments[^:]*|Raises|They raise[^:]*|Attributes):$")
ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>")
"""An object whose text differs from run to run."""
LABEL = re.compile(r"(Args|Returns|Raises|Durability|Thread|Memory|Source|Precision|Clients|Restart|From a coroutine):")


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for section in SECTIONS:
        parts += _class_parts(section)
    parts.append("## Network profiles\n\n`kqueue.testing.NETWORK_PROFILES`, in each direction:\n\n" + _profiles())
    parts.append("## Fixtures of pytest\n")
    for name, function, scope in fixtures():
        parts.append(f"### {name}\n\nScope: {scope}.\n\n{markdown(function.__doc__)}")
    parts.append("## Marks of pytest\n\n" + "\n".join(f"- {_wrapped(mark, '  ')}" for mark in marks()) + "\n")
    parts.append("## Checks of plugins, and other helpers\n\n`from kqueue.testing import ...`\n")
    for name in testing.__all__:
        member = getattr(testing, name)
        if name not in ("faults", "NETWORK_PROFILES", "NetworkProfile"):
            parts.append(f"### {name}\n\n{_code(name, member)}\n{markdown(member.__doc__)}")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip("\n") + "\n"


def fixtures() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yield name, function and scope of the fixtures for users."""
    for name, fixture in vars(pytest_plugin).items():
        marker = getattr(fixture, "_fixture_function_marker", None)
        if marker is not None and not name.startswith("_"):
            yield name, fixture._fixture_function, marker.scope


def marks() -> list[str]:
    """Return the lines that the plugin registers."""
    lines: list[str] = []

    class Config:
        stash: dict[Any, Any] = {}  # noqa: RUF012  it is read once

        @staticmethod
        def addinivalue_line(name: str, line: str) -> None:
            assert name == "markers"
            mark, _, text = line.partition(": ")
            lines.append(f"`{mark}`: {text}")

    pytest_plugin.pytest_configure(Config())  # type: ignore[arg-type]
    return lines


def _class_parts(section: Section) -> Iterator[str]:
    yield f"## {section.path}\n"
    if section.is_made:
        yield _code(section.path, section.kind)
    yield markdown(inspect.getdoc(section.kind))
    if section.calls_of is not None:
        names = [f"`{name}`" for name, _ in members(section)]
        yield _wrapped(f"Calls, as of {section.calls_of}: {', '.join(names)}.") + "\n"
        return
    for name, member in members(section):
        doc = markdown(_doc_of(section.kind, name, member))
        if isinstance(member, (property, cached_property)):
            yield f"### {section.kind.__name__}.{name}\n\n{doc}"
        else:
            yield f"### {section.kind.__name__}.{name}()\n\n{_code(name, member)}\n{doc}"


def members(section: Section) -> list[tuple[str, Any]]:
    """Return the public methods and properties of a class, its own first, in the order of code."""
    members_by_name: dict[str, Any] = {}
    for kind in section.kind.__mro__:
        if kind.__module__.startswith("kqueue"):
            for name, one in vars(kind).items():
                is_shown = callable(one) or isinstance(one, (property, cached_property))
                if is_shown and (name == "__call__" or not name.startswith("_")):
                    members_by_name.setdefault(name, one)
    hidden = NOT_FOR_TESTS.get(section.kind, set())
    return [
        (name, one)
        for name, one in members_by_name.items()
        if name not in hidden and not (section.base is not None and _is_repeated(section, name))
    ]


def _is_repeated(section: Section, name: str) -> bool:
    return hasattr(section.base, name) and name not in vars(section.kind)


def _doc_of(kind: type, name: str, member: Any) -> str | None:
    if isinstance(member, cached_property):
        return inspect.cleandoc(member.__doc__ or "")
    return inspect.getdoc(member) or inspect.getdoc(getattr(kind, name))


def _code(name: str, function: Any) -> str:
    """Return the signature in a fence; one parameter per line where it is long."""
    target = function.__init__ if isinstance(function, type) else function
    signature = inspect.signature(target)
    parts = []
    kinds = inspect.Parameter
    seen_star = False
    parameters = [
        one for one in signature.parameters.values() if one.name != "self" and one.annotation != "Never"
    ]  # Never: what is refused with a sentence
    for number, one in enumerate(parameters):
        if one.kind is kinds.KEYWORD_ONLY and not seen_star:
            parts.append("*")
            seen_star = True
        seen_star |= one.kind is kinds.VAR_POSITIONAL
        star = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(one.kind, "")
        text = star + one.name
        if one.annotation is not kinds.empty:
            text += f": {one.annotation}"
        if one.default is not kinds.empty:
            text += f" = {ADDRESS.sub('...', repr(one.default))}"
        parts.append(text)
        is_last = number + 1 == len(parameters) or parameters[number + 1].kind is not kinds.POSITIONAL_ONLY
        if one.kind is kinds.POSITIONAL_ONLY and is_last:
            parts.append("/")
    returned = (
        ""
        if isinstance(function, type) or signature.return_annotation is signature.empty
        else (f" -> {signature.return_annotation}")
    )
    line = f"{name}({', '.join(parts)}){returned}"
    if len(line) > WIDTH:
        line = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returned}"
    return f"```py\n{line}\n```\n"


def markdown(doc: str | None) -> str:
    """Return a docstring as Markdown: paragraphs, sections and their items, examples."""
    assert doc, "each public name says what it does"
    text = re.sub(r"``(.+?)``", lambda match: "`" + " ".join(match[1].split()) + "`", inspect.cleandoc(doc), flags=re.S)
    out: list[str] = []
    in_list = False
    for block in re.split(r"\n\s*\n", text):
        paragraph: list[str] = []

        def end(paragraph: list[str] = paragraph) -> None:
            if paragraph:
                out.append(_wrapped(" ".join(paragraph), "  " if paragraph[0].startswith("- ") else ""))
                paragraph.clear()

        for line in block.split("\n"):
            indent = len(line) - len(line.lstrip())
            stripped = line.strip()
            if indent == 0 and (LISTS.match(stripped) or LABEL.match(stripped)):
                end()
                label, _, rest = stripped.partition(":")
                in_list = not rest
                paragraph.append(f"**{label}:**{rest}")
                if in_list:
                    end()
            elif indent == 0:
                in_list = False
                paragraph.append(stripped)
            elif indent == 4 and in_list:
                end()
                paragraph.append(f"- {stripped}")
            elif indent == 4 and not paragraph:
                out.append(f"```py\n{stripped}\n```")
            else:
                paragraph.append(stripped)
        end()
        out.append("")
    return re.sub(r"\n(\*\*\w[^\n]*:\*\*)", r"\n\n\1", "\n".join(out)).replace("\n\n\n", "\n\n") + "\n"


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _profiles() -> str:
    head = (
        "| profile | latency (ms) | jitter (ms) | bytes per second | loss | disconnects |\n|---|---|---|---|---|---|\n"
    )
    rows = [
        f"| `{name}` | {one.latency_ms:g} | {one.jitter_ms:g} | {one.bytes_per_s:,} | {one.loss:g} | "
        f"{one.disconnects:g} |\n"
        for name, one in NETWORK_PROFILES.items()
    ]
    return head + "".join(rows) + "\n"


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f"run python -m {__name__}: signatures or docstrings changed"


@for_each("section", SECTIONS)
def test_each_public_name_is_on_the_page(section: Section) -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = [name for name, _ in members(section)]
    assert len(names) == len(set(names))
    for name in names:
        assert name in text.partition(f"## {section.path}\n")[2].partition("\n## ")[0]


def test_names_that_are_left_out_exist() -> None:
    for kind, names in NOT_FOR_TESTS.items():
        shown = {name for name in dir(kind) if not name.startswith("_")}
        assert {name for name in names if name not in ("broker", "bytes")} <= shown


def test_all_of_the_test_kit_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(name in text for name in testing.__all__)
    fixture_names = {name for name, _, _ in fixtures()}
    assert fixture_names >= {"kafka_broker", "kafka_topic", "kafka_faults", "kafka_cluster", "async_kafka_broker"}
    assert all(f"### {name}\n" in text for name in fixture_names)


def test_no_line_is_too_long() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if not line.startswith("|")]
    assert max(map(len, lines)) <= 120


if __name__ == "__main__":
    own = importlib.import_module("kqueue.tests.docs.test_testing_reference")
    PAGE.write_text(own.page(), encoding="utf-8")
