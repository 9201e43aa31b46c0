"""A browser without a screen for tests of the console: it follows links, and sends forms as a
browser does, with their hidden fields.
"""

from __future__ import annotations

import contextlib
import html
import re
from collections.abc import Callable, Iterator
from typing import Any

from starlette.testclient import TestClient

from kqueue.console.app import create_app
from kqueue.console.options import ConsoleOptions, client_options

ADDRESS = "http://localhost"
_CSRF = re.compile(r'name="csrf" value="([^"]*)"')
_TAGS = re.compile(r"<[^>]*>")


class Browser(TestClient):
    """A client of one console, with its cookies. Redirects are followed."""

    def csrf(self, path: str = "/") -> str:
        """The token in the forms of a page."""
        match = _CSRF.search(self.get(path).text)
        assert match is not None, f"{path} has no form"
        return html.unescape(match[1])

    def submit(self, path: str, fields: dict[str, Any] | None = None, *, on: str = "/", **options: Any) -> Any:
        """Send the form of the page `on`, with its token."""
        return self.post(path, data={"csrf": self.csrf(on), **(fields or {})}, **options)

    def text(self, path: str) -> str:
        """The words of a page, as a reader sees them, of a page that must be there."""
        response = self.get(path)
        assert response.status_code == 200, response.text
        return words(response.text)


Visit = Callable[..., Browser]


def words(page: str) -> str:
    """The text of a page, on one line."""
    return " ".join(html.unescape(_TAGS.sub(" ", page)).split())


@contextlib.contextmanager
def visits() -> Iterator[Visit]:
    """Yield a function that opens consoles, which are closed at the end of the block."""
    with contextlib.ExitStack() as stack:

        def visit(bootstrap: str, *, client: dict[str, Any] | None = None, **options: Any) -> Browser:
            console = ConsoleOptions(client=client_options(bootstrap, **(client or {})), **options)
            return stack.enter_context(Browser(create_app(console), base_url=ADDRESS))

        yield visit
