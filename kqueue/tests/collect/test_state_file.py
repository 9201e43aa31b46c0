from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kqueue.collect.fingerprint import FingerprintDigest
from kqueue.collect.state_file import AgentState, FilePosition, StateFile, StateUnusable

STATE = AgentState(
    ("/a/*.log",),
    (FilePosition("/a/x.log", "/a/x.log", "s1", (1, 2), FingerprintDigest(3, "00", "11"), 0),),
    ((0, 7), (2, 9)),
    False,
)


@pytest.fixture
def file(tmp_path: Path) -> StateFile:
    return StateFile(tmp_path / "state.json", "logs")


def test_saved_state_is_loaded(file: StateFile) -> None:
    assert file.load() is None
    for state in (STATE, AgentState()):
        file.save(state)
        assert file.load() == state
    assert sorted(path.name for path in file.path.parent.iterdir()) == ["state.json"]
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_failed_save_leaves_the_old_state(file: StateFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.save(STATE)

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateUnusable, match="can't be saved in .*: No space left on device"):
        file.save(AgentState())
    assert file.load() == STATE


def test_nothing_is_written_where_nothing_changed(file: StateFile) -> None:
    file.save(STATE)
    before = file.path.stat()
    file.save(STATE)
    assert file.path.stat() == before


NO_PATTERNS = {"version": 1, "topic": "logs", "patterns": 3, "files": [], "ends": [], "stopped": True}
NO_OFFSET = {**NO_PATTERNS, "patterns": [], "ends": [[0, -1]]}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"version": 2, "topic": "logs"}', json.dumps(NO_PATTERNS), json.dumps(NO_OFFSET)]
)
def test_malformed_state_is_refused(file: StateFile, text: str) -> None:
    file.path.write_text(text)
    with pytest.raises(StateUnusable, match="has no positions"):
        file.load()


def test_the_state_of_another_topic_is_refused(file: StateFile) -> None:
    file.save(STATE)
    with pytest.raises(StateUnusable, match="has the positions of topic logs"):
        StateFile(file.path, "other").load()


def test_state_file_has_one_agent_at_a_time(file: StateFile) -> None:
    other = StateFile(file.path, "logs")
    with file.held(), pytest.raises(StateUnusable, match="another agent"), other.held():
        pass
    with other.held():
        pass


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "no" / "state.json", "logs")
    with pytest.raises(StateUnusable, match="can't be kept"), file.held():
        pass
