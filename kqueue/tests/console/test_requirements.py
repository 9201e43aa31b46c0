"""The environments that run these tests bring what they import. What a distribution requires is
known only where it is installed, so this is tested in the one for the console.
"""

from __future__ import annotations

from kqueue.tests.tables import for_each
from kqueue.tests.test_pyproject import not_brought, third_party, tox_requirements


@for_each("requirements", [tox_requirements("console"), ["kqueue[dev]"]])
def test_every_module_that_the_tests_import_is_brought(requirements: list[str]) -> None:
    assert not_brought(third_party("console").all, requirements) == []
