"""An audit refuses missing topics and groups before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="summaries need NumPy")

import kqueue
from kqueue.client import Client
from kqueue.spark.errors import OptionError
from kqueue.spark.jobs.audit import check
from kqueue.tests.spark.jobs.audit.sample_audits import T0


def test_topics_patterns_and_groups_have_to_exist() -> None:
    with kqueue.Broker() as broker:
        source = {"kafka.bootstrap.servers": broker.bootstrap}
        check(source)  # of no topics nothing is missing
        broker.create_topic("t", 1)
        with Client(broker.bootstrap) as client:
            client.commit("mail", {T0: 0})
        check(source, ["mail"])
        check({**source, "subscribePattern": "^t$"}, ["mail"])
        with pytest.raises(OptionError, match="there is no group 'mial' .* did you mean 'mail'"):
            check(source, ["mail", "mial"])
        with pytest.raises(OptionError, match=r"no topic on .* matches the pattern '\^x'"):
            check({**source, "subscribePattern": "^x"})
        with pytest.raises(OptionError, match="there is no topic 'u'"):
            check({**source, "subscribe": "u"})


def test_a_tier_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kqueue-tier.json").write_text("{}")
    with pytest.raises(OptionError, match=f"path: {tmp_path} is a tier, and audits are of brokers"):
        check({"path": str(tmp_path)})
