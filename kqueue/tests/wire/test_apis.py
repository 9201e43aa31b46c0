from __future__ import annotations

import subprocess
import sys

from kqueue.schema import message_schema_of
from kqueue.tests.tables import for_each
from kqueue.wire.apis import ALL, API_VERSIONS, BY_KEY, BY_MODULE, Api

each_api = for_each("api", ALL)


@each_api
def test_a_row_agrees_with_its_classes(api: Api) -> None:
    for cls in (api.request_class, api.response_class):
        schema = message_schema_of(cls)
        assert schema.api_key == api.key
        assert schema.versions == api.versions
        for version in range(api.versions[0], api.versions[1] + 1):
            assert (version in schema.flexible) == api.is_flexible(version)
    assert message_schema_of(api.request_class).unstable == api.unstable
    assert (api.request_class.__name__, api.response_class.__name__) == (f"{api.name}Request", f"{api.name}Response")


def test_keys_and_names_are_found() -> None:
    assert len(BY_KEY) == len(BY_MODULE) == len(ALL)
    assert BY_KEY[API_VERSIONS].name == "ApiVersions"
    assert BY_MODULE["offset_for_leader_epoch"].key == 23
    assert repr(BY_KEY[0]) == "<Api 0 Produce 0-13>"


def test_flexible_versions_start_where_they_start() -> None:
    assert [BY_KEY[0].is_flexible(version) for version in (8, 9)] == [False, True]
    assert not BY_KEY[17].is_flexible(1)


def test_message_modules_are_imported_on_first_use_only() -> None:
    code = (
        "import sys, kqueue.wire.apis, kqueue.wire.headers, kqueue.wire.frame\n"
        "loaded = [name for name in sys.modules if name.startswith('kqueue.wire.messages')]\n"
        "assert not loaded, loaded\n"
        "kqueue.wire.apis.BY_KEY[12].request_class\n"
        "assert 'kqueue.wire.messages.heartbeat' in sys.modules\n"
        "assert 'kqueue.wire.messages.fetch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
