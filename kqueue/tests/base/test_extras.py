from __future__ import annotations

import tomllib
from pathlib import Path

from kqueue.base.extras import install_hint

EXTRAS = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_the_hint_names_extras_that_exist() -> None:
    assert install_hint("cli") == "pip install '.[cli]' in a checkout of kqueue"
    assert install_hint("cli", "spark") == "pip install '.[cli,spark]' in a checkout of kqueue"
    assert {"cli", "spark"} <= set(EXTRAS)
