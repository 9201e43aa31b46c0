"""How a user gets the packages of an extra: the one place to change when kqueue is on a package
index.
"""

from __future__ import annotations


def install_hint(*extras: str) -> str:
    """The command that installs these extras of kqueue: ``pip install '.[cli]' in a checkout of
    kqueue``.
    """
    return f"pip install '.[{','.join(extras)}]' in a checkout of kqueue"
