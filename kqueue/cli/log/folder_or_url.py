"""An argument that is a folder, or the URL of a tier."""

from __future__ import annotations

from pathlib import Path

import click


class FolderOrUrl(click.Path):
    """A path, returned as a `Path`; a URL is returned as the text that it is."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str | Path:
        """Return the argument's value."""
        from kqueue.log_tools.tier_urls import is_url

        if isinstance(value, str) and is_url(value):
            return value
        return super().convert(value, param, ctx)  # type: ignore[arg-type, return-value]


FOLDER_OR_URL = FolderOrUrl()
