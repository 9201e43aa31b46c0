from __future__ import annotations

from kqueue.telemetry.lag_ages import ENDS_MAX, LagAges


def test_the_age_is_that_of_the_first_end_beyond_the_committed_offset() -> None:
    ages = LagAges()
    assert [ages_at(ages, 5, end, now_s) for end, now_s in ((5, 100.0), (8, 115.0), (20, 130.0))] == [0.0, 0.0, 15.0]
    assert ages_at(ages, 8, 20, 145.0) == 15.0, "what came after the second scrape is still to be read"
    assert ages_at(ages, 20, 20, 160.0) == 0.0


def test_a_lag_that_was_there_at_the_first_scrape_counts_from_then_on() -> None:
    ages = LagAges()
    assert ages_at(ages, 0, 9, 100.0) == 0.0
    assert ages_at(ages, 0, 9, 160.0) == 60.0


def test_two_groups_share_the_ends_of_a_partition() -> None:
    ages = LagAges()
    ages.begin()
    for committed in (0, 9):
        ages.age_s("t", 0, committed, 9, 100.0)
    ages.begin()
    assert [ages.age_s("t", 0, committed, 12, 130.0) for committed in (0, 9)] == [30.0, 0.0]


def test_kept_ends_are_bounded_and_the_oldest_stays() -> None:
    ages = LagAges()
    for number in range(10 * ENDS_MAX):
        age_s = ages_at(ages, 0, number + 1, float(number))
        assert len(ages._ends["t", 0]) <= ENDS_MAX
    assert age_s == 10 * ENDS_MAX - 1


def test_a_topic_that_was_made_again_begins_anew() -> None:
    ages = LagAges()
    ages_at(ages, 0, 100, 0.0)
    assert ages_at(ages, 0, 3, 50.0) == 0.0
    assert ages_at(ages, 0, 3, 60.0) == 10.0


def test_what_no_group_reads_any_more_is_forgotten() -> None:
    ages = LagAges()
    ages_at(ages, 0, 1, 0.0)
    ages.begin()
    ages.begin()
    assert ages_at(ages, 0, 1, 50.0) == 0.0


def ages_at(ages: LagAges, committed: int, end: int, now_s: float) -> float:
    """One pass in which one group reads one partition."""
    ages.begin()
    return ages.age_s("t", 0, committed, end, now_s)
