"""The format of the schema: created once, upgraded once, and refused if it is newer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from compat_tests.postgres.server import Server
from kqueue.base.errors import StorageFailed
from kqueue.metadata.postgres import PostgresStore
from kqueue.metadata.postgres_address import parse_postgres_address
from kqueue.metadata.postgres_schema import MIGRATIONS, prepare_schema


def test_brokers_that_start_together_create_one_schema(address: str) -> None:
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(lambda _: PostgresStore(address), range(6)))
    for number, store in enumerate(stores):
        store.commit({}, {f"/{number}": b""}, [])
    assert len(stores[0].read("/")) == 6
    for store in stores:
        store.close()


def test_a_migration_runs_once_and_keeps_the_entries(shared_server: Server, address: str) -> None:
    schema = parse_postgres_address(address).schema
    with closing(PostgresStore(address)) as store:
        store.commit({}, {"/a": b"1"}, [])
        migrations = (*MIGRATIONS, ("ALTER TABLE {schema}.sessions ADD COLUMN rack text",))

        def upgrade(_: int) -> None:
            with psycopg.connect(shared_server.address, autocommit=True) as connection:
                prepare_schema(connection, schema, migrations)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(upgrade, range(4)))
        assert shared_server.run(f"SELECT version FROM {schema}.format") == [(len(migrations),)]
        assert store.read("/")["/a"].value == b"1", "a broker of the version before goes on"
    with pytest.raises(StorageFailed, match=f"expected format {len(MIGRATIONS)}, found {len(migrations)}; a newer"):
        PostgresStore(address)


def test_a_failed_migration_changes_nothing(shared_server: Server, address: str) -> None:
    schema = parse_postgres_address(address).schema
    PostgresStore(address).close()
    migrations = (*MIGRATIONS, ("ALTER TABLE {schema}.sessions ADD COLUMN rack text", "SELECT no_such_function()"))
    with (
        psycopg.connect(shared_server.address, autocommit=True) as connection,
        pytest.raises(psycopg.errors.UndefinedFunction),
    ):
        prepare_schema(connection, schema, migrations)
    PostgresStore(address).close()
    query = f"SELECT 1 FROM information_schema.columns WHERE table_schema = '{schema}' AND column_name = 'rack'"
    assert shared_server.run(query) == []


def test_a_schema_of_somebody_else_is_refused(shared_server: Server) -> None:
    shared_server.run("CREATE SCHEMA theirs")
    shared_server.run("CREATE TABLE theirs.entries (id integer)")
    with pytest.raises(StorageFailed, match="theirs has tables, and is no metadata store"):
        PostgresStore(f"{shared_server.address}?schema=theirs")


def test_a_database_in_another_encoding_is_refused(shared_server: Server) -> None:
    shared_server.run("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    with pytest.raises(StorageFailed, match="encoding LATIN1"):
        PostgresStore(shared_server.address.replace("/postgres", "/latin"))


def test_keys_of_every_kind_are_in_the_order_of_their_characters(address: str) -> None:
    keys = ["/\U0010ffff", "/é", "/%", "/_", "/\\", "/'", "/a b", "/A", "/a"]
    with closing(PostgresStore(address)) as store:
        store.commit({}, dict.fromkeys(keys, b"\0\xff"), [])
        assert list(store.read("/")) == sorted(keys)
        assert list(store.read("/%")) == ["/%"]
        with pytest.raises(ValueError, match="surrogates"):
            store.commit({}, {"/\ud800": b""}, [])
