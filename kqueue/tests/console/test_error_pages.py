from __future__ import annotations

from starlette.exceptions import HTTPException

from kqueue.console.error_pages import _problem


def test_a_status_without_words_of_ours_has_a_sentence() -> None:
    assert _problem(HTTPException(404)).sentence == "The console has no such page."
    assert "Method Not Allowed" in _problem(HTTPException(405)).sentence
    assert _problem(HTTPException(403, "Log in first.")).sentence == "Log in first."


def test_an_unknown_error_is_a_500() -> None:
    assert _problem(RuntimeError("inside")).status == 500
