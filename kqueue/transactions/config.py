"""Settings of transactions, and `TransactionConfig`, the coordinator's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kqueue.base.config import Config
from kqueue.base.settings import ANY, MiB, Scope, Setting, SettingType, UpdateMode, Validator, at_least

SHORT_MAX = 2**15 - 1
_REPLICATION = Validator(
    f"-1 (as many as there are), or from 1 to {SHORT_MAX}",
    lambda value: value == -1 or 1 <= value <= SHORT_MAX,
    lambda value: "Value must be at least 1",
)


def _row(name: str, kind: SettingType, default: int | bool, valid: Validator, doc: str, **more: Any) -> Setting:
    return Setting(name, kind, default, valid, Scope.BROKER, doc, **more)


SETTINGS: tuple[Setting, ...] = (
    _row(
        "transaction.max.timeout.ms",
        SettingType.INT,
        900_000,
        at_least(1),
        "Maximum transaction timeout that a producer may request.",
    ),
    _row(
        "transactional.id.expiration.ms",
        SettingType.INT,
        604_800_000,
        at_least(1),
        "Time after which a transactional id without a new transaction is removed.",
    ),
    _row(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        SettingType.INT,
        10_000,
        at_least(1),
        "Interval between checks for transactions that are older than their timeout and so aborted.",
    ),
    _row(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        SettingType.INT,
        3_600_000,
        at_least(1),
        "Interval between checks for expired transactional ids.",
    ),
    _row(
        "transaction.partition.verification.enable",
        SettingType.BOOLEAN,
        True,
        ANY,
        "Check that a partition was added to the producer's transaction before its first record.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    _row(
        "transaction.two.phase.commit.enable",
        SettingType.BOOLEAN,
        False,
        ANY,
        "Allow transactions without a timeout, whose end an external coordinator decides.",
    ),
    _row(
        "transaction.state.log.num.partitions",
        SettingType.INT,
        50,
        at_least(1),
        "Number of partitions of __transaction_state. It must not change once the topic exists.",
    ),
    _row(
        "transaction.state.log.replication.factor",
        SettingType.SHORT,
        3,
        _REPLICATION,
        "Number of replicas of __transaction_state. A cluster creates the topic once it has as many brokers.",
    ),
    _row(
        "transaction.state.log.min.isr",
        SettingType.INT,
        2,
        at_least(1),
        "Number of in-sync replicas of __transaction_state without which nothing is written to it.",
    ),
    _row(
        "transaction.state.log.segment.bytes",
        SettingType.INT,
        100 * MiB,
        at_least(1),
        "Segment size of __transaction_state. It is small so that compaction soon includes recent records.",
    ),
    _row(
        "transaction.state.log.load.buffer.size",
        SettingType.INT,
        5 * MiB,
        at_least(1),
        "Bytes of __transaction_state that a start reads at once.",
    ),
    _row(
        "kqueue.max.transactional.ids",
        SettingType.INT,
        100_000,
        at_least(1),
        "Maximum number of transactional ids. A new one that would exceed it is refused.",
    ),
    _row(
        "kqueue.max.transaction.partitions",
        SettingType.INT,
        10_000,
        at_least(1),
        "Maximum number of partitions in one transaction. Partitions that would exceed it are refused.",
    ),
    _row(
        "kqueue.max.transactions.partitions",
        SettingType.INT,
        500_000,
        at_least(1),
        "Maximum number of partitions in all open transactions. Partitions that would exceed it are refused.",
    ),
)


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Settings of the transaction coordinator; times in milliseconds."""

    timeout_max_ms: int = 900_000
    expiration_ms: int = 604_800_000
    timeout_check_interval_ms: int = 10_000
    expiration_check_interval_ms: int = 3_600_000
    two_phase_enabled: bool = False
    ids_max: int = 100_000
    partitions_max: int = 10_000
    all_partitions_max: int = 500_000

    @classmethod
    def of(cls, config: Config) -> TransactionConfig:
        """Return the values of a broker's configuration."""
        return cls(
            timeout_max_ms=config["transaction.max.timeout.ms"],
            expiration_ms=config["transactional.id.expiration.ms"],
            timeout_check_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            expiration_check_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
            two_phase_enabled=config["transaction.two.phase.commit.enable"],
            ids_max=config["kqueue.max.transactional.ids"],
            partitions_max=config["kqueue.max.transaction.partitions"],
            all_partitions_max=config["kqueue.max.transactions.partitions"],
        )
