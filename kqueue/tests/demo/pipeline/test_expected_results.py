from __future__ import annotations

import itertools
from datetime import datetime

import pytest

from kqueue.demo.events import Defect, Event, EventKind, events
from kqueue.demo.flights import Flight, Flights
from kqueue.demo.pipeline.expected_results import (
    LATE_REASON,
    REASONS,
    ExpectedResults,
    differences,
    expected_results,
)
from kqueue.spark.jobs.delay_results import AirportHour, QuarantinedRecord


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


TEN, ELEVEN = ms("2013-01-01T10:00:00Z"), ms("2013-01-01T11:00:00Z")
HOURS = [
    AirportHour("EWR", TEN, 2, 1, 0, 2.0, 2),
    AirportHour("JFK", TEN, 1, 0, 0, -5.0, -5),
    AirportHour("EWR", ELEVEN, 1, 0, 1, 20.0, 20),
    AirportHour("JFK", ELEVEN, 1, 0, 1, 15.0, 15),
    AirportHour("LGA", ELEVEN, 1, 1, 0, None, None),
]


def test_a_flight_counts_in_the_hour_in_which_it_left(flights: list[Flight], told: list[Event]) -> None:
    truth = expected_results(flights, told)
    assert sorted(truth.hours.values(), key=lambda hour: (hour.start_ms, hour.origin)) == HOURS
    assert (truth.flights, truth.aside) == (6, {})


def test_late_and_broken_ones_are_put_aside(flights: list[Flight], told: list[Event]) -> None:
    late = told[0]._replace(kind=EventKind.LATE)
    broken = [
        told[1]._replace(kind=EventKind.MALFORMED, harm=harm, value=b"%d" % number)
        for number, harm in enumerate(Defect)
    ]
    truth = expected_results(flights, [late, *broken, *told[2:]])
    assert truth.flights == 4
    assert truth.aside[late.send_ms, late.value] == [LATE_REASON]
    assert [truth.aside[event.send_ms, event.value] for event in broken] == [[REASONS[harm]] for harm in Defect]


def test_stopped_computation_stays_unfinished(flights: list[Flight], told: list[Event]) -> None:
    assert expected_results(flights, told, going=lambda: False).flights == 1


@pytest.mark.long
def test_the_real_flights() -> None:
    flights = Flights()
    told = list(events(itertools.islice(flights, 3000), seed=1))
    truth = expected_results(itertools.islice(flights, 3000), told)
    kinds = [event.kind for event in told]
    assert truth.flights == kinds.count(EventKind.VALID)
    assert sum(map(len, truth.aside.values())) == 3000 - kinds.count(EventKind.VALID)


@pytest.fixture
def truth(flights: list[Flight], told: list[Event]) -> ExpectedResults:
    return ExpectedResults(
        {(hour.origin, hour.start_ms): hour for hour in HOURS}, {(7, b"{"): ["not JSON"], (8, b"late"): ["late:"]}
    )


ASIDE = [
    QuarantinedRecord(0, 3, 7, b"{", "not JSON"),
    QuarantinedRecord(0, 4, 8, b"late", "late: told more than 2 hours after the event"),
]


def test_equal_results_have_no_differences(truth: ExpectedResults) -> None:
    nearly = HOURS[0]._replace(delay_avg_min=2.0 + 1e-12)
    assert differences(truth, [*HOURS[1:], nearly], ASIDE[::-1]) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            [HOURS[0]._replace(flights=1), *HOURS[1:]],
            ["gold counts 5 flights, and there were 6", "where flights is 1 instead of 2"],
        ),
        (
            [HOURS[0]._replace(flights=3), *HOURS[1:]],
            ["gold counts 7 flights, and", "hours of an airport wrong in gold: 1, the first"],
        ),
        ([HOURS[0]._replace(cancelled=0), *HOURS[1:]], ["where cancelled is 0 instead of 1"]),
        ([HOURS[0]._replace(delayed=1), *HOURS[1:]], ["where delayed is 1 instead of 0"]),
        ([HOURS[0]._replace(delay_avg_min=2.1), *HOURS[1:]], ["where delay_avg_min is 2.1 instead of 2.0"]),
        ([HOURS[0]._replace(delay_max_min=None), *HOURS[1:]], ["where delay_max_min is None instead of 2"]),
        ([*HOURS[:4], HOURS[4]._replace(delay_avg_min=0.0)], ["where delay_avg_min is 0.0 instead of None"]),
        (
            HOURS[1:],
            ["hours of an airport missing in gold: 1, the first of EWR, 2013-01-01 10:00 UTC", "gold counts 4"],
        ),
        (
            [*HOURS, HOURS[0]._replace(origin="XXX")],
            ["hours of an airport in gold that had no flights: 1, the first of XXX", "gold counts 8"],
        ),
        ([*HOURS, HOURS[1]], ["hours of an airport in gold more than once: 1, the first of JFK", "gold counts 7"]),
    ],
)
def test_every_difference_in_gold_is_reported(
    truth: ExpectedResults, changed: list[AirportHour], words: list[str]
) -> None:
    complaints = differences(truth, changed, ASIDE)
    assert len(complaints) == len(words)
    assert all(any(part in complaint for complaint in complaints) for part in words)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (ASIDE[1:], ["1 late or broken record missing in quarantine"]),
        ([*ASIDE, ASIDE[0]], ["1 surplus record in quarantine"]),
        ([*ASIDE, ASIDE[0], ASIDE[0]], ["2 surplus records in quarantine"]),
        ([*ASIDE, QuarantinedRecord(0, 5, 9, b"fine", "not JSON")], ["1 surplus record in quarantine"]),
        ([ASIDE[0]._replace(value=None), ASIDE[1]], ["1 late or broken record missing", "1 surplus record in"]),
        (
            [ASIDE[0]._replace(reason="late"), ASIDE[1]],
            ["1 record in quarantine with a reason that does not fit ('late', where"],
        ),
    ],
)
def test_every_difference_in_quarantine_is_reported(
    truth: ExpectedResults, changed: list[QuarantinedRecord], words: list[str]
) -> None:
    complaints = differences(truth, HOURS, changed)
    assert len(complaints) == len(words)
    assert all(any(part in complaint for complaint in complaints) for part in words)
