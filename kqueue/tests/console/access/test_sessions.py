from __future__ import annotations

from kqueue.client import ClientOptions
from kqueue.console.access.sessions import IDLE_S, LIFE_S, SHARED_LOGIN, SessionCookie, SessionStore
from kqueue.tests.console.browser import Browser

OPTIONS = ClientOptions(bootstrap="127.0.0.1:1")


class _Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_session_is_found_by_its_id_only() -> None:
    store = SessionStore()
    session = store.begin(OPTIONS)
    assert store.find(session.id) is session
    assert store.find("") is None
    assert store.find(None) is None
    assert store.find(session.csrf_token) is None
    store.end(session)
    store.end(session)
    assert store.find(session.id) is None


def test_a_session_ends_when_it_is_idle_and_when_it_is_old() -> None:
    clock, ended = _Clock(), []
    store = SessionStore(ended.append, now_s=clock)
    idle, used = store.begin(OPTIONS, "ann"), store.begin(OPTIONS, "bob")
    while clock.now_s < LIFE_S - IDLE_S / 2:
        clock.now_s += IDLE_S / 2
        assert (store.find(used.id) is used) == (clock.now_s < LIFE_S)
    assert ended[0] == idle.login_id
    clock.now_s = LIFE_S
    assert store.find(used.id) is None
    assert ended == [idle.login_id, used.login_id]


def test_the_session_used_longest_ago_makes_room() -> None:
    store = SessionStore(sessions_max=2)
    first, second = store.begin(OPTIONS), store.begin(OPTIONS)
    store.find(first.id)
    store.begin(OPTIONS)
    assert store.find(second.id) is None
    assert store.find(first.id) is first


def test_clients_are_shared_by_sessions_without_a_user_only() -> None:
    store = SessionStore()
    assert store.begin(OPTIONS).login_id == store.begin(OPTIONS).login_id == SHARED_LOGIN
    assert len({store.begin(OPTIONS, "ann").login_id for _ in range(2)}) == 2


def test_the_end_of_a_session_without_a_user_leaves_the_shared_clients() -> None:
    ended = []
    store = SessionStore(ended.append)
    store.end(store.begin(OPTIONS))
    assert ended == []


def test_messages_are_bounded() -> None:
    session = SessionStore().begin(OPTIONS)
    for number in range(100):
        session.flash(str(number))
    assert [message for _, message in session.take_flashes()] == [str(number) for number in range(90, 100)]
    assert session.take_flashes() == []


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(browser: Browser) -> None:
    [cookie] = browser.get("/").headers.get_list("set-cookie")
    assert "httponly" in cookie.lower()
    assert "samesite=lax" in cookie.lower()
    assert "secure" not in cookie.lower()
    assert browser.get("/").headers.get_list("set-cookie") == []


def test_the_cookie_of_tls_is_of_this_host_alone() -> None:
    assert SessionCookie(8080, uses_tls=True).name == "__Host-kqueue"
    assert SessionCookie(8080, uses_tls=False).name == "kqueue-8080"


def test_a_cookie_that_nobody_was_given_begins_another_session(browser: Browser) -> None:
    browser.cookies.set("kqueue-8080", "guessed")
    response = browser.get("/")
    assert "set-cookie" in response.headers
    assert "guessed" not in response.headers["set-cookie"]
