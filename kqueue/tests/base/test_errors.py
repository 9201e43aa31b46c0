from __future__ import annotations

from kqueue.base import errors


def test_every_error_of_ours_is_in_the_one_tree_and_says_what_it_means() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(classes) > 40
    for cls in classes:
        assert issubclass(cls, errors.KqueueError)
        assert cls.__doc__


def test_a_setting_error_is_a_value_error_for_callers_from_python() -> None:
    assert issubclass(errors.SettingError, ValueError)


def test_member_id_required_carries_the_id() -> None:
    error = errors.MemberIdRequired("consumer-1-x")
    assert error.member_id == "consumer-1-x"
    assert "consumer-1-x" in str(error)
