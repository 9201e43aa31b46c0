"""Regular expressions of Python from users, who may have those of other languages in mind."""

from __future__ import annotations

import re
import warnings


def compile_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern of `re`.

    Raises: re.error: it is malformed, or has a class within a class, such as ``[[:digit:]]``, which
        RE2 and Java have, and of which `re` would match other characters.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        try:
            return re.compile(pattern, flags)
        except FutureWarning as warning:
            reason = f"{warning}; Python has no classes such as [[:digit:]] and no sets of sets, write [0-9] or \\["
            raise re.error(reason, pattern) from None
