"""The command that installs the packages of an extra. To be changed when kqueue is on a package
index.
"""

from __future__ import annotations


def install_hint(*extras: str) -> str:
    """Return the command that installs these extras: ``pip install '.[cli]' in a checkout of
    kqueue``.
    """
    return f"pip install '.[{','.join(extras)}]' in a checkout of kqueue"
