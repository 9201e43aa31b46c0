"""Public contract checks for the metadata stores of clusters."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from kqueue.base.errors import Conflict, NodeIdInUse, SessionLost, StorageFailed
from kqueue.metadata.store import (
    COMMIT_SIZE_MAX,
    VALUE_SIZE_MAX,
    ClusterStore,
    ControllerInfo,
    Entry,
    Session,
    SessionInfo,
)
from kqueue.testing.cluster_store_probe import Cache, ClusterProbe, Make, Wakeups, let_pass, opened, until
from kqueue.testing.contract_checks import Check, Checks, ContractTrial, raises, same
from kqueue.testing.isolation import check_contract
from kqueue.testing.metadata_store_checks import METADATA_STORE_CHECKS

_Trial = ContractTrial[Make]


def check_cluster_store(
    make: Make | str,
    *,
    durable: bool = True,
    session_timeout_ms: int = 300,
    pause: Callable[[ClusterStore, Session], None] = let_pass,
    time_limit_s: float = 180,
    isolated: bool = True,
) -> None:
    """Check that a store meets the contract `ClusterStore` in `kqueue.metadata.store`, and with it
    that of `check_metadata_store`.

    Args:
        make: opens the store in a folder, given its path; the registered object, or its
            ``module:object`` path. Each check calls it several times with one folder, as that many
            brokers of a cluster: all of them have one store.
        durable: check that a reopened store has all committed entries, and goes on counting.
        session_timeout_ms: a short timeout that the store grants.
        pause: called with a store and a session of it: returns when the session's broker was paused
            for so long that the session is lost. By default it waits until the timeout has passed,
            for stores whose sessions live by `keep_alive` alone.
        time_limit_s, isolated: as in `check_metadata_store`.
    Raises:
        AssertionError: a check failed; the message names the check, the call and the result.
        TypeError: `make` or `pause` cannot be sent to another process.
    """
    options = {"durable": durable, "timeout_ms": session_timeout_ms, "pause": pause}
    check_contract(CLUSTER_STORE_CHECKS, make, options, time_limit_s=time_limit_s, isolated=isolated)


def _pause(probe: ClusterProbe, session: Session) -> None:
    probe.trial.options["pause"](probe.store, session)


def _check_sessions(trial: _Trial) -> None:
    with opened(trial, 2) as (one, two):
        same("sessions() of a new store", dict(one.sessions()), {})
        first, second = one.register(7, "a"), two.register(3, "b")
        assert second.epoch > first.epoch, f"a later session got epoch {second.epoch}, the one before {first.epoch}"
        expected = {3: SessionInfo(second.epoch, "b"), 7: SessionInfo(first.epoch, "a")}
        for probe in (one, two):
            same("sessions()", list(probe.sessions().items()), list(expected.items()))
        first.keep_alive()
        trial.ask("end()", first.end)
        same("lost of a session that was ended", first.lost, True)
        same("sessions() after one ended", dict(two.sessions()), {3: expected[3]})
        trial.ask("end() again", first.end)
        raises(SessionLost, "keep_alive() of an ended session", first.keep_alive)
        one.refused(first, {}, {"/a": b""})
        again = two.register(7, "c")
        assert again.epoch > second.epoch, f"a new session got epoch {again.epoch}, one before had {second.epoch}"
        first.end()
        same("sessions() after an old session was ended again", set(two.sessions()), {3, 7})


def _check_node_id(trial: _Trial) -> None:
    with opened(trial, 2) as (one, two):
        first = one.register(1, "first-process")
        what = "register(1, 'second-process') while first-process is alive"
        message = ""
        try:
            trial.ask(what, lambda: two.store.register(1, "second-process", 1000))
        except NodeIdInUse as error:
            message = str(error)
        assert message, f"{what} gave a session, expected NodeIdInUse"
        assert "first-process" in message, f"{what} raised NodeIdInUse({message!r}), expected it to name first-process"
        first.keep_alive()
        term = one.elected(first)
        again = one.register(1, "first-process")
        assert again.epoch > first.epoch, f"the same incarnation got epoch {again.epoch}, before {first.epoch}"
        one.refused(first, {}, {"/a": b""})
        one.refused(term, {}, {"/a": b""})
        same("controller() after its session was replaced", two.controller(), None)
        raises(SessionLost, "keep_alive() of a replaced session", first.keep_alive)
        same("lost of a replaced session", first.lost, True)
        one.commit({"/a": b"1"}, by=again)


def _check_paused(trial: _Trial) -> None:
    with opened(trial, 2) as (one, two):
        session = one.register(1, "paused", trial.options["timeout_ms"])
        term = one.elected(session)
        versions = one.commit({"/a": b"1"}, by=term)
        _pause(one, session)
        until("a session ends by its timeout", lambda: not two.sessions())
        same("controller() after its session was lost", two.controller(), None)
        for by in (session, term):
            one.refused(by, versions, {"/a": b"2"})
            one.refused(by, {}, {"/b": b"2"}, ["/a"])
            same("lost of a session or term that outlived its timeout", by.lost, True)
        raises(SessionLost, "keep_alive() of a lost session", session.keep_alive)
        raises(SessionLost, "campaign() of a lost session", lambda: one.store.campaign(session))
        same("sessions(), after the lost session called", dict(two.sessions()), {})
        same("values, after commits of a lost session", {k: e.value for k, e in two.read().items()}, {"/a": b"1"})


def _check_unnoticed(trial: _Trial) -> None:
    """The first call after the pause is the stale one: nothing else made the store notice."""
    with opened(trial, 2) as (one, two):
        session = one.register(1, "paused", trial.options["timeout_ms"])
        versions = one.commit({"/a": b"1"}, by=session)
        _pause(one, session)
        one.refused(session, versions, {"/a": b"2"})
        same("sessions(), after a commit of a lost session", dict(two.sessions()), {})


def _check_registered_anew(trial: _Trial) -> None:
    with opened(trial, 2) as (one, two):
        stale = one.register(1, "before", trial.options["timeout_ms"])
        versions = one.commit({"/a": b"1"}, by=stale)
        old_term = one.elected(stale)
        _pause(one, stale)
        until("a session ends by its timeout", lambda: not two.sessions())
        fresh = two.register(1, "after")
        new_term = two.elected(fresh)
        assert fresh.epoch > stale.epoch, f"the new session got epoch {fresh.epoch}, the lost one had {stale.epoch}"
        assert new_term.epoch > old_term.epoch, f"the new term got {new_term.epoch}, the lost one had {old_term.epoch}"
        for by in (stale, old_term):
            one.refused(by, versions, {"/a": b"stale"})
        same("lost of the session that took the place", (fresh.lost, new_term.lost), (False, False))
        with suppress(SessionLost):
            stale.keep_alive()
        stale.end()
        old_term.resign()
        same("sessions()", dict(one.sessions()), {1: SessionInfo(fresh.epoch, "after")})
        same("controller()", one.controller(), ControllerInfo(1, new_term.epoch))
        two.commit({"/a": b"fresh"}, guards=versions, by=new_term)


def _check_campaigns(trial: _Trial) -> None:
    with opened(trial, 3) as probes:
        sessions = [probe.register(number, f"process-{number}") for number, probe in enumerate(probes)]
        epochs: list[int] = []
        for _ in range(5):
            with ThreadPoolExecutor(len(probes)) as pool:
                campaigns = [
                    pool.submit(probe.store.campaign, session) for probe, session in zip(probes, sessions, strict=True)
                ]
                terms = trial.ask("campaign() of three brokers at once", lambda: [one.result() for one in campaigns])  # noqa: B023
            elected = [term for term in terms if term is not None]
            assert len(elected) == 1, f"campaign() of three brokers at once gave {len(elected)} terms, expected one"
            (term,) = elected
            epochs.append(term.epoch)
            for probe in probes:
                same("controller()", probe.controller(), ControllerInfo(term.session.node_id, term.epoch))
            trial.ask("resign()", term.resign)
            same("lost of a term that resigned", (term.lost, term.session.lost), (True, False))
            same("controller() after it resigned", probes[0].controller(), None)
            holder = probes[term.session.node_id]
            holder.refused(term, {}, {"/a": b""})
            holder.commit({"/a": b""}, by=term.session)
            term.resign()
        assert epochs == sorted(set(epochs)), (
            f"terms got the epochs {epochs} one after the other, expected them to rise"
        )


def _check_terms(trial: _Trial) -> None:
    with opened(trial, 2) as (one, two):
        first, second = one.register(1, "one"), two.register(2, "two")
        term = one.elected(first)
        same("campaign() while another session holds the term", two.campaign(second), None)
        newer = one.elected(first)
        assert newer.epoch > term.epoch, f"the holder campaigned again and got {newer.epoch}, before {term.epoch}"
        one.refused(term, {}, {"/a": b""})
        trial.ask("resign() of the older term", term.resign)
        same("controller()", two.controller(), ControllerInfo(1, newer.epoch))
        one.commit({"/a": b""}, by=newer)
        first.end()
        same("lost of a term whose session ended", newer.lost, True)
        one.refused(newer, {}, {"/a": b""})
        last = two.elected(second)
        assert last.epoch > newer.epoch, f"a later term got {last.epoch}, the one before {newer.epoch}"
        same("controller()", one.controller(), ControllerInfo(2, last.epoch))


def _check_guarded(trial: _Trial) -> None:
    with opened(trial, 2) as (one, two):
        session = one.register(1, "one")
        term = one.elected(session)
        versions = one.commit({"/a": b"1"}, guards={"/a": None}, by=term)
        for by in (session, term, None):
            one.conflicts(by, {"/a": None}, {"/a": b"2"})
            two.conflicts(None, {"/a": versions["/a"] + 1}, {"/b": b"2"})
        newer = two.commit({"/a": b"2"}, guards=versions)
        one.conflicts(term, versions, {"/a": b"3"})
        assert newer["/a"] > versions["/a"], (
            f"a later commit got version {newer['/a']}, the one before {versions['/a']}"
        )
        other = one.commit({"/b": b""}, by=session)
        assert other["/b"] > newer["/a"], (
            f"a commit of another key got version {other['/b']} after {newer['/a']}: expected one counter for all keys"
        )
        one.commit({}, ["/a"], guards=newer, by=term)
        same("keys", list(two.read()), ["/b"])


def _check_competition(trial: _Trial) -> None:
    with opened(trial, 3) as probes:
        probes[0].commit({"/n": b"0"})
        sessions = [probe.register(number, f"process-{number}") for number, probe in enumerate(probes)]

        def count(probe: ClusterProbe, session: Session) -> None:
            done = 0
            while done < 20:
                entry = probe.store.read("/n")["/n"]
                value = b"%d" % (int(entry.value) + 1)
                with suppress(Conflict):
                    probe.store.commit({"/n": entry.version}, {"/n": value}, [], by=session)
                    done += 1

        with ThreadPoolExecutor(len(probes)) as pool:
            counting = [pool.submit(count, *pair) for pair in zip(probes, sessions, strict=True)]
            trial.ask("commit() of three brokers at once", lambda: [one.result() for one in counting])
        for probe in probes:
            same("a counter that three brokers incremented 20 times each", probe.read()["/n"].value, b"60")


def _check_sizes(trial: _Trial) -> None:
    with opened(trial, 2) as (one, two):
        session = one.register(1, "one")
        value = bytes(range(256)) * (VALUE_SIZE_MAX // 256)
        many = {f"/{number}": value for number in range(COMMIT_SIZE_MAX // VALUE_SIZE_MAX)}
        versions = one.commit(many, by=session)
        same("sizes of values", {len(entry.value) for entry in two.read().values()}, {VALUE_SIZE_MAX})
        changes = two.changes(0)
        same("keys of changes(0)", sorted(changes.entries), sorted(many))
        same("the value of /0", two.read("/0")["/0"].value == value, True)
        what = f"commit() of a value of {VALUE_SIZE_MAX + 1} bytes"
        raises(ValueError, what, lambda: one.store.commit({}, {"/0": value + b"x"}, [], by=session))
        newer = one.commit({"/0": b"short"}, guards={"/0": versions["/0"]}, by=session)
        same("changes after it", two.read("/0")["/0"], Entry(b"short", newer["/0"]))


def _check_partitions(trial: _Trial) -> None:
    """Ten thousand partitions: a record of one topic, and a hundred topics, in one call each."""

    def record(count: int, epoch: int) -> bytes:
        rows = [[[1, 2, 3], [1, 2, 3], 1, epoch, epoch] for _ in range(count)]
        return json.dumps({"id": "A" * 22, "configs": {}, "partitions": rows}, separators=(",", ":")).encode()

    with opened(trial, 2) as (one, two):
        session = one.register(1, "one")
        term = one.elected(session)
        cache = Cache(two)
        cache.check("new store")
        versions = one.commit({"/topics/large": record(10_000, 0)}, by=term)
        topics = {f"/topics/{number:03}": record(100, 0) for number in range(100)}
        versions = {**versions, **one.commit(topics, guards=dict.fromkeys(topics), by=term)}
        same("topics in one call of changes", len(cache.check("ten thousand partitions").entries), 101)
        newer = {name: record(100, 1) for name in topics}
        one.commit(newer, guards={name: versions[name] for name in topics}, by=term)
        changes = cache.check("a leader failed")
        assert changes.complete or len(changes.entries) == 100, (
            f"changes gave {len(changes.entries)} keys, expected 100"
        )


def _check_changes(trial: _Trial) -> None:
    with opened(trial, 2) as (one, two):
        caches = [Cache(one), Cache(two)]
        late = Cache(two)
        same("changes(0) of a new store", dict(caches[0].refresh().entries), {})
        steps: list[tuple[str, dict[str, bytes], list[str]]] = [
            ("two keys", {"/a": b"1", "/b": b"1"}, []),
            ("one changed", {"/a": b"2"}, []),
            ("one deleted", {}, ["/b"]),
            ("a missing key deleted", {}, ["/never-there"]),
            ("deleted, and created again", {"/b": b"again"}, ["/a"]),
            ("created again", {"/a": b"again"}, []),
            ("all deleted", {}, ["/a", "/b"]),
            ("made anew", {"/b": b"anew"}, []),
        ]
        for number, (when, puts, deletes) in enumerate(steps):
            probe = (one, two)[number % 2]
            versions = probe.commit(puts, deletes)
            for cache in caches:
                changes = cache.check(when)
                for key, version in versions.items():
                    assert changes.version >= version, f"{when}: changes gave version {changes.version} after {version}"
                    same(f"{when}: the entry of {key}", cache.entries[key], Entry(puts[key], version))
            if number == 1:
                late.refresh()
        late.check("several deletions and creations later")
        for cache in caches:
            empty = cache.refresh()
            same("changes without commits", empty.complete or not empty.entries, True)
        for after in (0, caches[0].version + 1000):
            answer = one.changes(after)
            same(f"complete of changes({after})", answer.complete, True)
            same(f"entries of changes({after})", dict(answer.entries), dict(one.read()))


def _check_history(trial: _Trial) -> None:
    """More deletions than a store remembers; a broker that was away meanwhile is right."""
    with opened(trial, 2) as (one, two):
        one.commit({"/stays": b"", "/goes": b"", "/changes": b""})
        away, near = Cache(two), Cache(two)
        away.check("a few keys")
        one.commit({"/changes": b"2"}, ["/goes"])
        for number in range(6):
            keys = [f"/{number}/{key}" for key in range(2000)]
            one.commit(dict.fromkeys(keys, b""))
            one.commit({}, keys[1:])
            near.check("thousands of deletions, seen as they happen")
        away.check("thousands of deletions later")
        one.commit({}, ["/0/0"])
        away.check("one more deletion")


def _check_watch(trial: _Trial) -> None:
    timeout_ms = trial.options["timeout_ms"]
    with opened(trial, 2) as (one, two):
        watches = {"another broker's": Wakeups(two), "its own": Wakeups(one)}
        first = one.register(1, "one")
        for whose, woken in watches.items():
            woken.after(f"{whose} commit", lambda: one.commit({"/a": b""}))
            woken.after(f"{whose} deletion", lambda: one.commit({}, ["/a"]))
            session = one.register(2, "two")
            term: list[ClusterProbe] = []
            woken.after(f"{whose} campaign", lambda: term.append(one.elected(session)))  # type: ignore[arg-type]  # noqa: B023
            woken.after(f"{whose} resignation", lambda: term[0].resign())  # type: ignore[attr-defined]  # noqa: B023
            woken.after(f"{whose} end of a session", session.end)
            woken.after(f"{whose} registration", lambda: one.register(2, "two"))
            same("sessions()", set(two.sessions()), {1, 2})
        paused = one.register(3, "three", max(timeout_ms, 500))  # longer than `Wakeups.settled` takes
        cache = Cache(two)
        watches["another broker's"].after("a session that expires", lambda: _pause(one, paused))
        until("a session ends by its timeout", lambda: set(two.sessions()) == {1, 2})
        for number in range(50):
            one.commit({f"/{number % 7}": b"%d" % number}, by=first)
        watches["another broker's"].settled()
        cache.check("fifty commits, after the last call of notify")
        for woken in watches.values():
            woken.stop()
            woken.stop()
            before = woken.settled()
            one.commit({"/a": b""})
            same("calls of notify after its watch was stopped", woken.settled(), before)


def _check_closing(trial: _Trial) -> None:
    with opened(trial, 2) as (one, two):
        if one.store is two.store:  # one object for all brokers
            return
        session = one.register(1, "one")
        one.elected(session)
        woken = Wakeups(two)
        woken.after("close() of a broker's store", one.close)
        until("the sessions of a closed store end", lambda: not two.sessions())
        same("controller()", two.controller(), None)
        same("lost of a session whose store was closed", session.lost, True)
        raises(StorageFailed, "keep_alive() after close()", session.keep_alive)
        for what, run in (
            ("register()", lambda: one.store.register(1, "one", 1000)),
            ("sessions()", one.store.sessions),
            ("controller()", one.store.controller),
            ("changes(0)", lambda: one.store.changes(0)),
            ("watch()", lambda: one.store.watch(lambda: None)),
        ):
            raises(StorageFailed, f"{what} of a closed store", run)
        two.elected(two.register(1, "another"))


def _check_unknown_outcome(trial: _Trial) -> None:
    """A commit that raises StorageFailed happened whole or not at all; one that returned did."""
    if not trial.options["durable"]:
        return
    for _ in range(5):
        with opened(trial, 2) as (one, two):
            one.commit({"/a": b"0", "/b": b"0"})
            returned: list[int] = []

            def write(probe: ClusterProbe, returned: list[int]) -> None:
                for number in range(1, 100_000):
                    try:
                        probe.store.commit({}, {"/a": b"%d" % number, "/b": b"%d" % number}, [])
                    except StorageFailed:
                        return
                    returned.append(number)

            with ThreadPoolExecutor(1) as pool:
                writing = pool.submit(write, one, returned)
                until("commits return", lambda: len(returned) >= 3)  # noqa: B023
                one.close()
                trial.ask("commit() of a store that is closed meanwhile", writing.result)
            values = {key: int(entry.value) for key, entry in two.read().items()}
            assert values["/a"] == values["/b"], f"a commit that raised StorageFailed happened in part: {values}"
            assert values["/a"] in (returned[-1], returned[-1] + 1), (
                f"commit {returned[-1]} returned and the next raised StorageFailed, but the store has {values}"
            )


def _check_counters(trial: _Trial) -> None:
    if not trial.options["durable"]:
        return
    epochs: list[tuple[int, int, int]] = []
    for number in range(3):
        with opened(trial) as (probe,):
            session = probe.register(1, f"process-{number}")
            term = probe.elected(session)
            version = probe.commit({"/a": b""}, by=term)["/a"]
            epochs.append((session.epoch, term.epoch, version))
            probe.commit({}, ["/a"], by=session)
            if number == 1:
                session.end()
    for before, after in itertools.pairwise(epochs):
        assert all(new > old for old, new in zip(before, after, strict=True)), (
            f"broker epoch, term epoch and version of a reopened store were {epochs}, expected each of them to rise"
        )


CLUSTER_STORE_CHECKS = Checks(
    "cluster store",
    (
        *METADATA_STORE_CHECKS.rows,
        Check("sessions have rising epochs, and are live until they end", _check_sessions),
        Check("a node id belongs to one live incarnation", _check_node_id),
        Check("a session that outlived its timeout is lost, and so are its commits", _check_paused),
        Check("a lost session's commit is refused though nobody noticed the loss", _check_unnoticed),
        Check("a session that was replaced by a newer one of its node is refused", _check_registered_anew),
        Check("of campaigning brokers one gets the term", _check_campaigns),
        Check("a term ends when it is resigned, replaced, or its session ends", _check_terms),
        Check("a commit by a session or term has guards too, and versions are one counter", _check_guarded),
        Check("no update of brokers in competition is lost", _check_competition),
        Check("values of 1 MiB are stored, and larger ones raise ValueError", _check_sizes),
        Check("ten thousand partitions take one commit and one call of changes", _check_partitions),
        Check("changes are what other brokers changed", _check_changes),
        Check("changes are right after more deletions than a store remembers", _check_history),
        Check("a watch is called for keys, sessions and the controller", _check_watch),
        Check("close ends the sessions of one broker", _check_closing),
        Check("a commit that raises StorageFailed happened whole or not at all", _check_unknown_outcome),
        Check("epochs and versions of a reopened store go on", _check_counters),
    ),
)
