"""A mark for tests that can't hold with compiled modules (`tox -e compiled`)."""

from __future__ import annotations

import pytest

from kqueue.base.native import is_compiled

replaces_compiled = pytest.mark.skipif(
    is_compiled(), reason="replaces a function of a compiled module, which its callers there do not look up"
)
