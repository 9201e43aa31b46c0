"""Regular expressions from clients, matched in linear time.

`re` may take exponential time for some patterns. This module has the operators that RE2 and Java
share: literals, ``.``, classes, groups, ``|``, ``*``, ``+``, ``?``, ``{m,n}``, ``^`` and ``$``; and
RE2's POSIX classes such as ``[[:digit:]]``. What it does not have is refused, and so is what Java
reads otherwise than RE2 where a pattern is Java's: an answer that is silently wrong is worse.
A pattern becomes a nondeterministic automaton (Thompson), which is simulated by sets of its states.
Source: R. Cox, Regular Expression Matching Can Be Simple And Fast; RE2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn

from kqueue.base.sliced_task import SlicedWork, run_to_end

PATTERN_LENGTH_MAX = 1000
STATES_MAX = 1000
DEPTH_MAX = 50
REPEATS_MAX = 1000
CACHE_MAX = 10_000
CHARS_PER_YIELD = 16
CharTest = Callable[[str], bool]
_CLASSES: dict[str, CharTest] = {
    "d": lambda char: "0" <= char <= "9",
    "w": lambda char: char == "_" or (char.isascii() and char.isalnum()),
    "s": lambda char: char in " \t\n\r\f",
}
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_POSIX: dict[str, CharTest] = {
    "alnum": lambda char: char.isascii() and char.isalnum(),
    "alpha": lambda char: char.isascii() and char.isalpha(),
    "ascii": str.isascii,
    "blank": lambda char: char in " \t",
    "cntrl": lambda char: char < " " or char == "\x7f",
    "digit": _CLASSES["d"],
    "graph": lambda char: "!" <= char <= "~",
    "lower": lambda char: "a" <= char <= "z",
    "print": lambda char: " " <= char <= "~",
    "punct": _PUNCTUATION.__contains__,
    "space": lambda char: char in " \t\n\r\f\v",
    "upper": lambda char: "A" <= char <= "Z",
    "word": _CLASSES["w"],
    "xdigit": lambda char: char.isascii() and char in "0123456789abcdefABCDEF",
}
"""By the names in ``[[:name:]]``. Source: RE2's syntax."""
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def _folded(test: CharTest) -> CharTest:
    """Return a test of a character in any case; the upper case of some is more than one."""
    return lambda char: any(test(other) for other in (char, char.lower(), char.upper()) if len(other) == 1)


class PatternError(ValueError):
    """A pattern that is malformed, too large, or uses an operator that is not supported."""


class _State(NamedTuple):
    """One state. `test` None: the state is left without a character, if `anchor` allows it."""

    test: CharTest | None
    anchor: str
    next: list[int]


class LinearRegex:
    """A compiled pattern. `fullmatch` takes time proportional to states times text."""

    def __init__(self, pattern: str, states_max: int = STATES_MAX, *, java: bool = False) -> None:
        """Compile a pattern of RE2, or with `java` of Java.

        Raises: PatternError: it is malformed or not supported, or needs more than `states_max`
            states. A character needs one, a repetition as many as it repeats.
        """
        if len(pattern) > PATTERN_LENGTH_MAX:
            raise PatternError(f"a pattern has at most {PATTERN_LENGTH_MAX} characters, this one has {len(pattern)}")
        self._states, self._start, self._final = _Parser(pattern, states_max, java=java).parse()
        self._cache: dict[tuple[frozenset[int], str, bool], frozenset[int]] = {}

    def fullmatch(self, text: str) -> bool:
        """Return whether the pattern matches all of `text`."""
        return run_to_end(self.fullmatch_sliced(text))

    def fullmatch_sliced(self, text: str) -> SlicedWork[bool]:
        """Return what `fullmatch` returns, yielding within long texts."""
        states = self._closure([self._start], at_start=True, at_end=not text)
        for position, char in enumerate(text):
            if not states:
                return False
            states = self._step(states, char, position == len(text) - 1)
            if position % CHARS_PER_YIELD == CHARS_PER_YIELD - 1:
                yield None
        return self._final in states

    def _step(self, states: frozenset[int], char: str, at_end: bool) -> frozenset[int]:
        key = states, char, at_end
        reached_states = self._cache.get(key)
        if reached_states is None:
            if len(self._cache) >= CACHE_MAX:
                self._cache.clear()
            reached = [
                following
                for number in states
                if (test := self._states[number].test) is not None and test(char)
                for following in self._states[number].next
            ]
            reached_states = self._cache[key] = self._closure(reached, at_start=False, at_end=at_end)
        return reached_states

    def _closure(self, numbers: list[int], *, at_start: bool, at_end: bool) -> frozenset[int]:
        """Return the states that are reached without a character."""
        seen: set[int] = set()
        while numbers:
            number = numbers.pop()
            if number in seen:
                continue
            seen.add(number)
            state = self._states[number]
            blocked = (state.anchor == "^" and not at_start) or (state.anchor == "$" and not at_end)
            if state.test is None and not blocked:
                numbers.extend(state.next)
        return frozenset(seen)


_Fragment = tuple[int, list[int]]
"""First state, and the states whose `next` is to be extended."""
_Node = Callable[[], _Fragment]
"""Builds a new fragment at each call, because a repetition needs several."""


class _Parser:
    """A recursive-descent parser, whose result adds states."""

    def __init__(self, pattern: str, states_max: int, *, java: bool) -> None:
        self._pattern = pattern
        self._java = java
        self._states_max = states_max
        self._position = 0
        self._depth = 0
        self._states: list[_State] = []
        self._fold_case = pattern.startswith("(?i)")
        if self._fold_case:
            self._position = 4

    def parse(self) -> tuple[list[_State], int, int]:
        """Return all states, the first, and the final one. Raises PatternError."""
        node = self._alternatives()
        if self._position < len(self._pattern):
            self._fail("a ')' closes no group")
        start, ends = node()
        final = self._add(None, "", [])
        self._join(ends, final)
        return self._states, start, final

    def _add(self, test: CharTest | None, anchor: str, following: list[int]) -> int:
        if len(self._states) >= self._states_max:
            raise PatternError(f"the pattern needs more than {self._states_max} states")
        self._states.append(_State(test, anchor, following))
        return len(self._states) - 1

    def _fail(self, reason: str) -> NoReturn:
        raise PatternError(f"pattern {self._pattern!r}, position {self._position}: {reason}")

    def _peek(self) -> str:
        return self._pattern[self._position : self._position + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            self._fail("the pattern ends too early")
        self._position += 1
        return char

    def _alternatives(self) -> _Node:
        nodes = [self._sequence()]
        while self._peek() == "|":
            self._take()
            nodes.append(self._sequence())
        return nodes[0] if len(nodes) == 1 else lambda: self._build_choice(nodes)

    def _build_choice(self, nodes: list[_Node]) -> _Fragment:
        fragments = [node() for node in nodes]
        start = self._add(None, "", [first for first, _ in fragments])
        return start, [end for _, ends in fragments for end in ends]

    def _sequence(self) -> _Node:
        nodes: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            nodes.append(self._repetition())
        return lambda: self._build_sequence(nodes)

    def _build_sequence(self, nodes: list[_Node]) -> _Fragment:
        start = self._add(None, "", [])
        ends = [start]
        for node in nodes:
            first, next_ends = node()
            self._join(ends, first)
            ends = next_ends
        return start, ends

    def _join(self, ends: list[int], first: int) -> None:
        for end in ends:
            self._states[end].next.append(first)

    def _repetition(self) -> _Node:
        node = self._atom()
        counted = False
        while self._peek() in ("*", "+", "?", "{") and self._peek():
            if counted:
                self._fail("nothing to repeat")
            low, high = self._count()
            if self._peek() == "?":  # lazy: the same for a full match
                self._take()
            node = self._repeated(node, low, high)
            counted = True
        return node

    def _count(self) -> tuple[int, int | None]:
        char = self._take()
        if char in _QUANTIFIERS:
            return _QUANTIFIERS[char]
        body = ""
        while (char := self._take()) != "}":
            body += char
        low, comma, high = body.partition(",")
        if not low.isdecimal() or (high and not high.isdecimal()):
            self._fail(f"a repetition is {{m}}, {{m,}} or {{m,n}}, found {{{body}}}")
        most = int(low) if not comma else int(high) if high else None
        if int(low) > REPEATS_MAX or (most is not None and not int(low) <= most <= REPEATS_MAX):
            self._fail(f"a repetition counts from 0 to {REPEATS_MAX}")
        return int(low), most

    def _repeated(self, node: _Node, low: int, high: int | None) -> _Node:
        return lambda: self._build_repeated(node, low, high)

    def _build_repeated(self, node: _Node, low: int, high: int | None) -> _Fragment:
        start = self._add(None, "", [])
        ends = [start]
        for _ in range(low):
            first, next_ends = node()
            self._join(ends, first)
            ends = next_ends
        if high is None:
            first, last = node()
            loop = self._add(None, "", [first])
            self._join(ends, loop)
            self._join(last, loop)
            return start, [loop]
        all_ends = list(ends)
        for _ in range(high - low):
            first, ends_of_one = node()
            self._join(ends, first)
            ends = ends_of_one
            all_ends += ends
        return start, all_ends

    def _atom(self) -> _Node:
        char = self._take()
        if char == "(":
            return self._group()
        if char in "^$":
            return self._anchor(char)
        if char == ".":
            return self._test(lambda other: other != "\n")
        if char == "[":
            return self._test(self._class())
        if char == "\\":
            return self._test(self._escape())
        if char in "*+?{":
            self._fail("nothing to repeat")
        return self._test(self._is(char, char))

    def _group(self) -> _Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._fail(f"groups are nested at most {DEPTH_MAX} deep")
        if self._peek() == "?":
            self._take()
            if self._take() != ":":
                self._fail("only groups of the forms (...) and (?:...) are supported")
        node = self._alternatives()
        if self._peek() != ")":
            self._fail("a group is not closed")
        self._take()
        self._depth -= 1
        return node

    def _anchor(self, char: str) -> _Node:
        def build() -> _Fragment:
            number = self._add(None, char, [])
            return number, [number]

        return build

    def _test(self, test: CharTest) -> _Node:
        def build() -> _Fragment:
            number = self._add(test, "", [])
            return number, [number]

        return build

    def _is(self, low: str, high: str) -> CharTest:
        if not self._fold_case:
            return lambda char: low <= char <= high
        return _folded(lambda char: low <= char <= high)

    def _escape(self) -> CharTest:
        char = self._take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char.lower() in _CLASSES and char.isupper():
            inner = _CLASSES[char.lower()]
            return lambda other: not inner(other)
        return self._is(*2 * (self._escaped(char),))

    def _escaped(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char.isascii() and char.isalnum():
            self._fail(f"\\{char} is not supported")
        return char

    def _class(self) -> CharTest:
        negated = self._peek() == "^"
        if negated:
            self._take()
        tests: list[CharTest] = []
        while self._peek() != "]" or not tests:
            char = self._take()
            if char == "\\" and self._peek().lower() in _CLASSES and self._peek():
                tests.append(self._escape())
                continue
            if self._java and (char == "[" or (char == "&" and self._peek() == "&")):
                self._fail("classes within classes are not supported")
            if char == "[" and self._peek() == ":" and (end := self._pattern.find(":]", self._position + 1)) >= 0:
                tests.append(self._posix(self._pattern[self._position + 1 : end]))
                self._position = end + 2
                continue
            low = self._escaped(self._take()) if char == "\\" else char
            high = low
            if self._peek() == "-" and self._pattern[self._position + 1 : self._position + 2] not in ("", "]"):
                self._take()
                char = self._take()
                high = self._escaped(self._take()) if char == "\\" else char
            if high < low:
                self._fail(f"the range {low}-{high} is empty")
            tests.append(self._is(low, high))
        self._take()
        return lambda char: any(test(char) for test in tests) is not negated

    def _posix(self, name: str) -> CharTest:
        inner = _POSIX.get(name.removeprefix("^"))
        if inner is None:
            self._fail(f"there is no class [:{name}:]")
        test = _folded(inner) if self._fold_case else inner
        return test if not name.startswith("^") else lambda char: not test(char)
