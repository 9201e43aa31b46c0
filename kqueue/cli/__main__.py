"""`python -m kqueue.cli`: the command where the console script is not on the path."""

from __future__ import annotations

from kqueue.cli import main

if __name__ == "__main__":
    main()
