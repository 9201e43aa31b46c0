"""Words to count, and the check of the counts that a framework wrote."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import kqueue
from compat_tests.frameworks.running import Program

WORDS, COUNTS = "words", "counts"
PARTITIONS = 2
WORDS_PER_PART = 400
VOCABULARY = ("log", "offset", "broker", "topic", "lag", "epoch", "batch", "record", "group")
CRASHES_MAX = 5
Parse = Callable[[bytes], int]


class WordCount:
    """Sends words in parts. The counts are the last value of each word in the topic `COUNTS`."""

    def __init__(self, broker: kqueue.Broker, parse: Parse, seed: int = 1) -> None:
        self._broker = broker
        self._parse = parse
        self._random = random.Random(seed)
        self.expected: Counter[str] = Counter()
        broker.create_topic(WORDS, PARTITIONS)
        broker.create_topic(COUNTS, PARTITIONS)

    def send(self) -> None:
        """Append a part of the words."""
        words = self._random.choices(VOCABULARY, k=WORDS_PER_PART)
        self._broker.topics[WORDS].produce_all([(word, word) for word in words])
        self.expected.update(words)

    def written(self, *, read_committed: bool = True) -> list[tuple[str, int]]:
        """Return the counts, in the order of each partition."""
        records = self._broker.topics[COUNTS].records(read_committed=read_committed)
        return [((one.key or b"").decode(), self._parse(one.value or b"")) for one in records]

    def is_complete(self) -> bool:
        """Whether the last count of each word is at least what it has to be."""
        last = dict(self.written())
        return all(last.get(word, 0) >= count for word, count in self.expected.items())

    def run_over_a_crash(self, program: Program) -> None:
        """Run the program; kill it after its first counts of another part, and start it again."""
        self.send()
        with program:
            program.wait_until(self.is_complete, "the counts of the first part")
            self._send_and_crash(program)
            self.send()
            program.wait_until(self.is_complete, f"the counts {self.expected}")

    def run_over_a_cut_transaction(self, program: Program) -> None:
        """As `run_over_a_crash`, until a crash has left counts in a transaction that never commits.

        Then assert that each word was counted exactly once.
        """
        self.send()
        with program:
            program.wait_until(self.is_complete, "the counts of the first part")
            for _ in range(CRASHES_MAX):
                self._send_and_crash(program)
                program.wait_until(self.is_complete, f"the counts {self.expected}")
                if len(self.written(read_committed=False)) > len(self.written()):
                    break
            else:
                raise AssertionError(f"none of {CRASHES_MAX} crashes cut a transaction")
        self.assert_exactly_once()

    def assert_exactly_once(self) -> None:
        """Assert that each word was counted 1, 2, 3, ... up to the number of its records."""
        counts: dict[str, list[int]] = {}
        for word, count in self.written():
            counts.setdefault(word, []).append(count)
        assert counts == {word: list(range(1, count + 1)) for word, count in self.expected.items()}

    def _send_and_crash(self, program: Program) -> None:
        before = len(self.written(read_committed=False))
        self.send()
        program.wait_until(lambda: len(self.written(read_committed=False)) > before, "counts of a part")
        program.crash()
