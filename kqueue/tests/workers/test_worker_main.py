from __future__ import annotations

import io
import pickle

from kqueue.tests.workers.test_subprocess_runner import Where
from kqueue.workers.worker_main import _run


def test_unreadable_task_returns_an_error() -> None:
    kind, error = _run(io.BytesIO(b"no pickle"))
    assert kind == "failed"
    assert isinstance(error, pickle.UnpicklingError)


def test_task_with_an_unknown_name_returns_an_error() -> None:
    data = pickle.dumps(None) + pickle.dumps(Where()).replace(b"Where", b"Wherf")
    kind, error = _run(io.BytesIO(data))
    assert kind == "failed"
    assert isinstance(error, AttributeError)
