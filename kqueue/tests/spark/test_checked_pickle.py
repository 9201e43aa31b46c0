from __future__ import annotations

import os
import pickle
import sys

import pytest

from kqueue.base.version import __version__
from kqueue.spark import checked_pickle as module


class Reader(module.CheckedPickle):
    def __init__(self, number: int) -> None:
        self.number = number


def test_pickled_object_comes_back() -> None:
    read = module._unpickler(__version__, "pack it")(pickle.dumps((Reader, {"number": 7})))
    assert isinstance(read, Reader)
    assert vars(read) == {"number": 7}


def test_executor_without_this_kqueue_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    with pytest.raises(RuntimeError, match=rf"has kqueue {__version__}, and the driver has 0.0.1: pack it$"):
        module._unpickler("0.0.1", "pack it")(b"")
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"
    monkeypatch.setitem(sys.modules, "kqueue.base", None)
    with pytest.raises(RuntimeError, match=rf"runs {sys.executable}, which has no kqueue: pack it$"):
        module._unpickler(__version__, "pack it")(b"")
