"""`ErrorPages`: every error of a request becomes a page with a sentence; none shows a traceback."""

from __future__ import annotations

import logging
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kqueue.base import events
from kqueue.console.page import Page
from kqueue.console.problems import Problem, problem_of

logger = logging.getLogger("kqueue.console")


class ErrorPages:
    """Answers a request whose page raised an error."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception as error:
            if has_begun:
                raise
            problem = _problem(error)
            if problem.status == 500:
                events.CONSOLE_PAGE_FAILED.log(
                    logger, "%s %s failed", method=scope["method"], path=ascii(scope["path"]), exc_info=True
                )
            response = Page(Request(scope)).problem(problem)
            await response(scope, receive, send)


def _problem(error: Exception) -> Problem:
    if not isinstance(error, HTTPException):
        return problem_of(error)
    title = HTTPStatus(error.status_code).phrase
    if error.detail != title:
        return Problem(error.status_code, title, error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return Problem(404, title, "The console has no such page.")
    return Problem(error.status_code, title, f"The console can't answer this request: {title}.")


async def raise_again(request: Request, error: Exception) -> Response:
    """Have `ErrorPages` answer what Starlette would answer with a line of text."""
    raise error
