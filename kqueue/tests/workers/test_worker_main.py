from __future__ import annotations

import io
import pickle

from kqueue.tests.workers.test_subprocess_runner import Where
from kqueue.workers.worker_main import _run


def test_what_can_not_be_read_is_an_answer_too() -> None:
    kind, error = _run(io.BytesIO(b"no pickle"))
    assert kind == "failed"
    assert isinstance(error, pickle.UnpicklingError)


def test_bytes_that_name_what_is_not_there_are_an_answer_too() -> None:
    data = pickle.dumps(None) + pickle.dumps(Where()).replace(b"Where", b"Wherf")
    kind, error = _run(io.BytesIO(data))
    assert kind == "failed"
    assert isinstance(error, AttributeError)
