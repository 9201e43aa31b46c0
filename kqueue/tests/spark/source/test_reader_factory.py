from __future__ import annotations

from pathlib import Path

import kqueue
from kqueue.spark.source.broker_reader import BrokerReader
from kqueue.spark.source.file_reader import FileReader
from kqueue.spark.source.reader_factory import open_reader
from kqueue.tests.spark.source.logs import options


def test_the_options_select_the_reader(broker: kqueue.Broker, tmp_path: Path) -> None:
    from_broker, from_files = open_reader(options(broker, subscribe="t")), open_reader(options(path=tmp_path))
    from_broker.close()
    from_files.close()
    assert isinstance(from_broker, BrokerReader)
    assert isinstance(from_files, FileReader)
