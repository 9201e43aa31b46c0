from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import kqueue
from kqueue.client.errors import ClientError, DeadlinePassed
from kqueue.spark.errors import OptionError
from kqueue.spark.source.broker_reader import BrokerReader
from kqueue.spark.source.combined_reader import CombinedReader
from kqueue.spark.source.file_reader import FileReader
from kqueue.spark.source.options import FIRST_ANSWER_MS
from kqueue.spark.source.reader_factory import check_readable, open_first, open_reader, unread
from kqueue.spark.source.tier_reader import TierRecordReader
from kqueue.tests.spark.source.logs import options
from kqueue.tests.spark.source.tiers import make_tier


def test_the_options_select_the_reader(broker: kqueue.Broker, tmp_path: Path) -> None:
    from_broker, from_files = open_reader(options(broker, subscribe="t")), open_reader(options(path=tmp_path))
    from_broker.close()
    from_files.close()
    assert isinstance(from_broker, BrokerReader)
    assert isinstance(from_files, FileReader)


def test_a_tier_is_read_alone_or_with_brokers_beside_it(broker: kqueue.Broker, tmp_path: Path) -> None:
    make_tier(tmp_path / "tier").close()
    alone, both = (open_first(options(one, path=tmp_path / "tier", subscribe="t")) for one in (None, broker))
    assert isinstance(alone, TierRecordReader)
    assert isinstance(both, CombinedReader)
    assert alone.client is None
    assert both.client.options.bootstrap == broker.bootstrap
    alone.close()
    both.close()
    assert unread(options(path=tmp_path / "tier")) == ""


def test_a_query_of_a_wrong_address_waits_as_long_as_it_says_or_for_seconds() -> None:
    given = {"kafka__bootstrap__servers": "127.0.0.1:1", "subscribe": "t"}
    assert options(**given).first_answer_ms == FIRST_ANSWER_MS == 10_000
    assert options(**given, kafka__default__api__timeout__ms=70_000).first_answer_ms == 70_000
    with pytest.raises(DeadlinePassed, match=r"no success within 20 ms.*127.0.0.1:1"):
        open_first(dataclasses.replace(options(**given), first_answer_ms=20))


def test_a_broker_that_advertises_a_wrong_address_is_not_readable() -> None:
    with kqueue.Broker(settings={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as hidden:
        hidden.create_topic("t", 1)
        given = options(hidden, subscribe="t", kafka__default__api__timeout__ms=500)
        given = dataclasses.replace(given, first_answer_ms=2_000)
        with pytest.raises(ClientError, match=r"127.0.0.1:1"):
            check_readable(given)


@pytest.mark.parametrize("way", ["wire", "folder"])
def test_a_pattern_that_matches_no_topic_is_refused(way: str, tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path / "data") as broker:
        broker.create_topic("orders", 1)
        if way == "wire":
            given = options(broker, subscribePattern="^ordrs$")
            with pytest.raises(OptionError, match=r"no topic on 127.0.0.1:\d+ matches the pattern '\^ordrs\$'"):
                check_readable(given)
            check_readable(given, some=False)
    if way == "folder":
        with pytest.raises(OptionError, match=r"no topic in .*data matches the pattern"):
            check_readable(options(path=tmp_path / "data", subscribePattern="^ordrs$"))
        check_readable(options(path=tmp_path / "data", subscribePattern="^ord"))
