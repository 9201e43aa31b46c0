"""Files of a log as lines of text, as Kafka 4.3's DumpLogSegments or older tools print them."""

from __future__ import annotations

from kqueue.log_tools.dump.file_dump import dump_file
from kqueue.log_tools.dump.options import DumpOptions, Form
from kqueue.log_tools.dump.problems import Problems
from kqueue.log_tools.dump.source_files import SUFFIXES, DumpFile, dump_files_in

__all__ = ["SUFFIXES", "DumpFile", "DumpOptions", "Form", "Problems", "dump_file", "dump_files_in"]
