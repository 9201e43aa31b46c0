"""The result of a verification: its findings, and how much was read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

ERROR = "error"
NOTE = "note"
PER_FILE_MAX = 20  # a file with many errors must not flood the output


class Finding(NamedTuple):
    """One deviation from the expected content.

    `file`: path below the data folder. `position`: bytes, None: the whole file. `severity`: ERROR:
    a broker would read wrong data or fail; NOTE: harmless.
    """

    file: str
    position: int | None
    expected: str
    found: str
    severity: str = ERROR

    def __str__(self) -> str:
        where = self.file if self.position is None else f"{self.file} at position {self.position}"
        return f"{where}: expected {self.expected}, found {self.found}"


@dataclass(slots=True)
class VerificationReport:
    """The findings of `verify` in `folder`.

    `batches`, `records`, `bytes`: how much of the log was read (records as the headers count them).
    """

    folder: str
    findings: list[Finding] = field(default_factory=list)
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    _per_file: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def errors(self) -> list[Finding]:
        """The findings that are damage."""
        return [finding for finding in self.findings if finding.severity == ERROR]

    @property
    def notes(self) -> list[Finding]:
        """The findings that are harmless."""
        return [finding for finding in self.findings if finding.severity == NOTE]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged; notes do not count."""
        return not any(finding.severity == ERROR for finding in self.findings)

    def add(self, finding: Finding) -> None:
        """Add a finding: at most PER_FILE_MAX per file and severity; further ones are counted."""
        key = finding.file, finding.severity
        self._per_file[key] += 1
        if self._per_file[key] <= PER_FILE_MAX:
            self.findings.append(finding)

    def close(self) -> None:
        """Add the counts of the findings that were left out."""
        for (file, severity), count in sorted(self._per_file.items()):
            if count > PER_FILE_MAX:
                self.findings.append(
                    Finding(file, None, "nothing else", f"{count - PER_FILE_MAX} more like these", severity)
                )
        self._per_file.clear()

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "folder": self.folder,
            "sound": self.is_sound,
            "partitions": self.partitions,
            "segments": self.segments,
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "findings": [finding._asdict() for finding in self.findings],
        }
