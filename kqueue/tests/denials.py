"""Finds the sentences of documents that deny a feature ("no metrics yet", "is not supported")."""

from __future__ import annotations

import re

DENIAL = re.compile(
    r"\bkqueue (?:does not|doesn't|cannot|can't|never)\b|\bkqueue (?:is|are) not\b"
    r"|\b(?:kqueue|broker) (?:has|serves|reads|exports|stores|reports|supports) no\b"
    r"|\b(?:are|is) not (?:yet )?(?:supported|served|implemented)\b|\bunsupported\b|\bno support\b"
    r"|\bleaves out: |\bnot there yet\b|\bwill need\b|\bno \w+ (?:are|is) (?:reported|stored|supported|served)\b"
    r"|\b(?:has|needs?) no such setting\b|\bthere (?:is|are) no\b|^- No \w",
    re.IGNORECASE,
)
_ENDS = re.compile(r"(?<=[.;!?])\s+|\s\|\s|^\| |\n{2,}|\n(?=- )", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def sentences(markdown: str) -> list[str]:
    """Return the sentences and the cells of tables of a document, without its code."""
    parts = _ENDS.split(_CODE.sub("", markdown))
    return [" ".join(part.split()) for part in parts if part.strip()]


def denials(markdown: str) -> list[str]:
    """Return the sentences that deny a feature."""
    return [sentence for sentence in sentences(markdown) if DENIAL.search(sentence)]
