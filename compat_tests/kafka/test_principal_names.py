"""Names of users from certificates: distinguished names as Java writes them, and Kafka's rules that
make shorter ones of them.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable
from pathlib import Path

from compat_tests.kafka.tool_host import ToolHost
from kqueue.base.errors import SettingError
from kqueue.security.principal_mapping import PrincipalMapper
from kqueue.security.x500_names import subject_of

RULE_SETS, NAMES_EACH, SUBJECTS = 500, 6, 500
ATTRIBUTES = ("CN", "OU", "O", "DC", "cn")
VALUES = ("ann", "Bob", "größe", "STRASSE", "İ", "a.b", "a b", "", "Σας", "x/y", "7", "ann\\, jr", "a\u2028b")
PATTERNS = (
    "(.*)",
    "(.*?)",
    "([^,]*)",
    "([a-z]+)",
    "(\\w+)",
    "(.)",
    "(CN|OU)",
    "(a|b)?",
    "(\\d*)",
    "([A-Za-z0-9. ]{1,5})",
)
AROUND = ("^", "$", ".*", ".*?", "", ",", "[,=]", "CN=", "OU=", "O=", "(?:CN=)", "\\S*")
REPLACEMENTS = ("$1", "x", "", "$1@x", "\\$1", "a\\/b", "[$1]", "$10", "$2", "User-$1-$1")


def asked(tools: ToolHost, file: Path, rows: Iterable[tuple[str, bytes]]) -> list[str | None]:
    """What Java made of each row; None: it refused."""
    file.write_text("".join(f"{word} {base64.b64encode(value).decode()}\n" for word, value in rows))
    done = tools.run("PrincipalNames", file)
    assert done.status == 0, done.stderr
    return [base64.b64decode(line[1:]).decode() if line[0] == "=" else None for line in done.stdout.splitlines()]


def random_name(rng: random.Random) -> str:
    parts = rng.randint(1, 4)
    return ",".join(f"{rng.choice(ATTRIBUTES)}={rng.choice(VALUES)}" for _ in range(parts))


def random_rules(rng: random.Random) -> str:
    """Rules of which most are well formed."""
    rules = []
    for _ in range(rng.randint(1, 3)):
        pattern = "".join(
            rng.choice(AROUND) + (rng.choice(PATTERNS) if rng.random() < 0.7 else "") for _ in range(rng.randint(1, 4))
        )
        if "(" not in pattern.replace("(?:", ""):
            pattern += "(.*)"
        rules.append(
            f"RULE:{'(?i)' * (rng.random() < 0.1)}{pattern}/{rng.choice(REPLACEMENTS)}/{rng.choice('LU  ').strip()}"
        )
    if rng.random() < 0.3:
        rules.append("DEFAULT")
    text = rng.choice((",", ", ", " , ")).join(rules)
    if rng.random() < 0.1:
        text = rng.choice((text.replace("RULE:", "RULE", 1), f"{text}X", f"{text},", f",{text}", f"{text} ,, {text}"))
    return text


def mapped(rules: str, names: list[str]) -> list[str | None]:
    """As `asked`: a result for the rules, and one for each name."""
    try:
        mapper = PrincipalMapper(rules)
    except SettingError:
        return [None] * (1 + len(names))
    return ["", *map(mapper.name_of, names)]


def test_rules_name_whom_kafka_names(tools: ToolHost, tmp_path: Path) -> None:
    rng = random.Random(7)
    cases = [(random_rules(rng), [random_name(rng) for _ in range(NAMES_EACH)]) for _ in range(RULE_SETS)]
    rows = [
        row
        for rules, names in cases
        for row in (("rules", rules.encode()), *(("name", name.encode()) for name in names))
    ]
    answers = asked(tools, tmp_path / "rules", rows)
    step = 1 + NAMES_EACH
    kafkas = [answers[at : at + step] for at in range(0, len(answers), step)]
    assert 0.1 < sum(answer is None for answer in answers) / len(answers) < 0.8, "the cases say little"
    different = [
        (rules, names, ours, theirs)
        for (rules, names), theirs in zip(cases, kafkas, strict=True)
        if (ours := mapped(rules, names)) != theirs
    ]
    assert different == []


# --- distinguished names

TEXT_TAGS = (0x0C, 0x13, 0x16, 0x14, 0x1E, 0x1C, 0x1B, 0x18, 0x04)
OIDS = {
    "CN": "550403", "C": "550406", "L": "550407", "ST": "550408", "STREET": "550409", "O": "55040a", "OU": "55040b",
    "DC": "0992268993f22c640119", "UID": "0992268993f22c640101", "mail": "2a864886f70d010901", "serial": "550405",
    "title": "55040c", "own": "2b0601040182371402",
}  # fmt: skip
TEXTS = (
    *VALUES,
    " a",
    "a ",
    "#a",
    "a#b",
    'q"uote',
    "a+b",
    "<a;b>",
    "a=b",
    "  ",
    "back\\slash",
    "nul\0",
    "😀",
    "\r\n",
    "é",
)


def der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82, *size.to_bytes(2, "big")])
    return bytes([tag]) + length + content


def random_subject(rng: random.Random) -> bytes:
    """The DER of a name."""

    def attribute() -> bytes:
        tag, text = rng.choice(TEXT_TAGS) if rng.random() < 0.5 else 0x0C, rng.choice(TEXTS)
        encoding = {0x1E: "utf-16-be", 0x1C: "utf-32-be", 0x14: "latin-1", 0x13: "ascii", 0x16: "ascii"}.get(
            tag, "utf-8"
        )
        oid = der(0x06, bytes.fromhex(rng.choice(list(OIDS.values()))))
        return der(0x30, oid, der(tag, text.encode(encoding, "replace")))

    parts = [[attribute() for _ in range(2 if rng.random() < 0.15 else 1)] for _ in range(rng.randint(0, 5))]
    return der(0x30, *(der(0x31, *sorted(part)) for part in parts))


def written(subject: bytes) -> str | None:
    """What kqueue calls the subject of a certificate, of which the rest does not matter; None: it
    refuses.
    """
    empty = der(0x30)
    signed = der(0x30, der(0x02, b"\1"), empty, empty, empty, subject, empty)
    try:
        return subject_of(der(0x30, signed))
    except ValueError:
        return None


def test_distinguished_names_are_written_as_java_does(tools: ToolHost, tmp_path: Path) -> None:
    rng = random.Random(11)
    subjects = [random_subject(rng) for _ in range(SUBJECTS)]
    javas = asked(tools, tmp_path / "subjects", [("subject", subject) for subject in subjects])
    assert sum(name is not None for name in javas) > SUBJECTS // 2
    different = [
        (subject.hex(), ours, java)
        for subject, java in zip(subjects, javas, strict=True)
        if (ours := written(subject)) != java
    ]
    assert different == []
