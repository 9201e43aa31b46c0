"""One page of a long list, filtered on the server, with the links to the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

ROWS_PER_PAGE = 50
FILTER_CHARACTERS_MAX = 250
PAGES_MAX = 1_000_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The rows of one page.

    `rows`: those to show. `total`: of all pages, `unfiltered` without the filter. `page`: from 1.
    `query`: the filter's text, "": none. `parameters`: the others of the address.
    """

    rows: Sequence[T]
    total: int
    unfiltered: int
    page: int
    pages: int
    query: str
    parameters: Mapping[str, str]

    def link(self, page: int) -> str:
        """Return the address of another page, relative to the path."""
        parameters = dict(self.parameters)
        if self.query:
            parameters["q"] = self.query
        if page > 1:
            parameters["page"] = str(page)
        return "?" + urlencode(parameters)

    @property
    def first(self) -> int:
        """The number of the first row, from 1; 0 without rows."""
        return self.total and (self.page - 1) * ROWS_PER_PAGE + 1

    @property
    def last(self) -> int:
        """The number of the last row."""
        return self.first + len(self.rows) - 1 if self.rows else 0


def listing(
    items: Sequence[T], parameters: Mapping[str, str], name_of: Callable[[T], str] = str, *, keep: Sequence[str] = ()
) -> Listing[T]:
    """Return the page that the parameters of an address ask for: ``q`` filters names, ``page``.

    Args:
        items: in their order. name_of: what `q` is looked for in; case does not matter.
        keep: parameters that the links of other pages keep.
    """
    query = parameters.get("q", "").strip()[:FILTER_CHARACTERS_MAX]
    wanted = query.casefold()
    matching = [item for item in items if wanted in name_of(item).casefold()] if wanted else items
    pages = max(1, -(-len(matching) // ROWS_PER_PAGE))
    page = min(page_number(parameters), pages)
    rows = matching[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE]
    kept = {name: parameters[name][:FILTER_CHARACTERS_MAX] for name in keep if parameters.get(name)}
    return Listing(rows, len(matching), len(items), page, pages, query, kept)


def page_number(parameters: Mapping[str, str]) -> int:
    """Return the number of the page that is asked for; 1 where that is none."""
    text = parameters.get("page", "")
    return min(max(int(text), 1), PAGES_MAX) if text.isascii() and text.isdigit() and len(text) < 10 else 1
