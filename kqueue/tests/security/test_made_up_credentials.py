"""The looks of a name that no user has, beside those of users' names."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kqueue.security.made_up_credentials import FORMS_MAX, CredentialForm, CredentialForms, MadeUpCredentials
from kqueue.security.scram_credentials import ITERATIONS_MIN, SCRAM_MECHANISMS, ScramCredential, make_credential

SHA_256, SHA_512 = SCRAM_MECHANISMS.values()
NAMES = [f"user{number}" for number in range(400)]
SECRET = b"x" * 32


def credential(iterations: int, salt: bytes = b"1cl5ddzw1p0wzl3mdsznwxaw1a") -> ScramCredential:
    return ScramCredential(salt, b"stored", b"server", iterations)


def made_up(*counts: tuple[ScramCredential, int]) -> MadeUpCredentials:
    forms = CredentialForms()
    for one, count in counts:
        for _ in range(count):
            forms.add(SHA_256, one)
    return MadeUpCredentials(lambda: SECRET, [forms])


def forms_of(credentials: MadeUpCredentials) -> dict[str, CredentialForm]:
    return {name: CredentialForm.of(credentials.credential(SHA_256, name)) for name in NAMES}


def test_made_up_credentials_have_the_most_common_form():
    kafka = made_up((make_credential(SHA_256, "secret", 8192), 3))
    assert set(forms_of(kafka).values()) == {CredentialForm(8192, None)}
    librdkafka = made_up((credential(10_000, bytes(64)), 1))
    assert set(forms_of(librdkafka).values()) == {CredentialForm(10_000, 64)}
    assert len({librdkafka.credential(SHA_256, name).salt for name in NAMES}) == len(NAMES)
    assert CredentialForm.of(librdkafka.credential(SHA_512, "eve")) == (ITERATIONS_MIN, None), "it has no users"
    assert CredentialForm.of(librdkafka.credential(SHA_256, "id", by_token=True)) == (ITERATIONS_MIN, None)


def test_each_form_is_as_frequent_as_among_users():
    made = made_up((credential(4096), 3), (credential(8192), 1))
    counts = Counter(form.iterations for form in forms_of(made).values())
    assert 0.65 < counts[4096] / len(NAMES) < 0.85
    assert counts.total() == counts[4096] + counts[8192]


def test_a_name_keeps_its_form_and_salt():
    before = made_up((credential(4096), 50), (credential(8192), 50))
    again = made_up((credential(8192), 50), (credential(4096), 50))
    after = made_up((credential(4096), 50), (credential(8192), 51))
    shown = [[(one.salt, one.iterations) for one in (made.credential(SHA_256, name) for name in NAMES)]
             for made in (before, again, after)]  # fmt: skip
    assert shown[0] == shown[1]
    assert sum(old != new for old, new in zip(shown[0], shown[2], strict=True)) <= 5


@given(st.lists(st.tuples(st.sampled_from([4096, 8192, 10_000]), st.sampled_from([b"salt", bytes(64)])), max_size=20))
def test_forms_are_counted_until_they_are_gone(users: list[tuple[int, bytes]]):
    forms = CredentialForms()
    for user in users:
        forms.add(SHA_256, credential(*user))
    assert forms.common(SHA_256) == Counter(CredentialForm(number, len(salt)) for number, salt in users)
    for user in users:
        forms.add(SHA_256, credential(*user), -1)
    assert forms.common(SHA_256) == {}


def test_rare_forms_are_left_out():
    made = made_up(*((credential(4096 + number), 1) for number in range(3 * FORMS_MAX)), (credential(9999), 2))
    assert len(set(forms_of(made).values())) <= FORMS_MAX
    assert CredentialForm(9999, None) in forms_of(made).values()
