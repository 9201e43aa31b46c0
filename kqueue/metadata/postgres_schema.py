"""The tables and functions of the PostgreSQL store, with the version of their format.

    format(version)
    counter(last_version, broker_epoch, term_epoch, history_start)   one row
    entries(key, value, version)
    deletions(key, version)                  when each key was deleted
    sessions(node_id, epoch, incarnation, timeout_ms, deadline, term_epoch)
    requests(id, at, result)                 the changes of the last minutes
    history(version, id)                     the last changes, see `postgres_lineage`

1. Each change locks the row of `counter` until it is committed. So versions are committed in their
   order, and a reader that sees version n sees all before it.
2. The change is one call of a function, which is one transaction: its client holds no lock while it
   is stopped, and what it asks for is done whole or not at all.
3. A session is lost once its row is gone. Under the lock, each change first deletes the rows whose
   time is over, by the server's clock; then it looks for its own. Whoever lists the sessions does
   the same, if one is over. So a commit by a session comes before all that follow from its end,
   whatever its client or the clock do meanwhile.
4. A change has an id, and the same id never changes anything twice (`requests`): it may be sent
   again over another connection, though the first one is still at work. `void` rules out one that
   was given up.

A server that was away could not be told that sessions are alive: their time begins again when it
starts. Brokers whose session a longer recovery ends register again. A deadline further away than
twice the timeout says that the server's clock went back.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import psycopg
from psycopg import sql

from kqueue.base.errors import StorageFailed
from kqueue.metadata.store import VALUE_SIZE_MAX

DELETIONS_MAX = 10_000
"""The number of deleted keys that are remembered for `changes`."""
HISTORY_MAX = 10_000
"""The number of changes whose ids are remembered."""
REQUESTS_KEPT_MINUTES = 10
"""Longer than a statement can outlive its client."""

_FORMAT_1 = (
    """
CREATE TABLE {schema}.counter (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    last_version bigint NOT NULL DEFAULT 0,
    broker_epoch bigint NOT NULL DEFAULT 0,
    term_epoch bigint NOT NULL DEFAULT 0,
    history_start bigint NOT NULL DEFAULT 0
);
INSERT INTO {schema}.counter DEFAULT VALUES;
CREATE TABLE {schema}.entries (
    key text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL CHECK (octet_length(value) <= {value_size_max}),
    version bigint NOT NULL
);
CREATE INDEX entries_by_version ON {schema}.entries (version);
CREATE TABLE {schema}.deletions (key text COLLATE "C" PRIMARY KEY, version bigint NOT NULL);
CREATE INDEX deletions_by_version ON {schema}.deletions (version);
CREATE TABLE {schema}.sessions (
    node_id integer PRIMARY KEY,
    epoch bigint NOT NULL UNIQUE,
    incarnation text NOT NULL,
    timeout_ms bigint NOT NULL,
    deadline timestamptz NOT NULL,
    term_epoch bigint NOT NULL DEFAULT 0
);
CREATE TABLE {schema}.requests (id uuid PRIMARY KEY, at timestamptz NOT NULL, result bigint);
CREATE INDEX requests_by_time ON {schema}.requests (at);
CREATE TABLE {schema}.history (version bigint PRIMARY KEY, id uuid NOT NULL);
""",
    """
CREATE FUNCTION {schema}.is_over(deadline timestamptz, timeout_ms bigint) RETURNS boolean LANGUAGE sql AS $$
    SELECT greatest(deadline, pg_postmaster_start_time() + timeout_ms * interval '1 millisecond') <= clock_timestamp()
        OR deadline > clock_timestamp() + 2 * timeout_ms * interval '1 millisecond'
$$;

CREATE FUNCTION {schema}.notify() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify({channel}, '');
END $$;

-- Begins each change: the lock, then the end of the sessions whose time is over.
CREATE FUNCTION {schema}.begin_change() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM {schema}.counter FOR UPDATE;
    DELETE FROM {schema}.sessions s WHERE {schema}.is_over(s.deadline, s.timeout_ms);
    IF FOUND THEN
        PERFORM {schema}.notify();
    END IF;
END $$;

CREATE FUNCTION {schema}.next_version(request uuid) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    following bigint;
BEGIN
    UPDATE {schema}.counter SET last_version = last_version + 1 RETURNING last_version INTO following;
    INSERT INTO {schema}.history VALUES (following, request);
    DELETE FROM {schema}.history WHERE version <= following - {history_max};
    RETURN following;
END $$;

CREATE FUNCTION {schema}.end_change(request uuid, result bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.requests VALUES (request, clock_timestamp(), result);
    DELETE FROM {schema}.requests r WHERE r.at < clock_timestamp() - interval '{kept_minutes} minutes';
    PERFORM {schema}.notify();
END $$;

CREATE FUNCTION {schema}.change(
    request uuid, by_session bigint, by_term bigint, guard_keys text[], guard_versions bigint[],
    put_keys text[], put_values bytea[], delete_keys text[],
    OUT outcome text, OUT number bigint, OUT at_key text, OUT found_version bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held_term bigint;
    oldest bigint;
BEGIN
    PERFORM {schema}.begin_change();
    SELECT result INTO number FROM {schema}.requests WHERE id = request;
    IF FOUND THEN
        outcome := CASE WHEN number IS NULL THEN 'void' ELSE 'done' END;
        RETURN;
    END IF;
    IF by_session IS NOT NULL THEN
        SELECT term_epoch INTO held_term FROM {schema}.sessions WHERE epoch = by_session;
        IF NOT FOUND THEN
            outcome := 'session lost';
            RETURN;
        END IF;
        IF held_term <> by_term THEN
            outcome := 'term lost';
            RETURN;
        END IF;
    END IF;
    SELECT g.key, e.version INTO at_key, found_version
        FROM unnest(guard_keys, guard_versions) AS g (key, version)
        LEFT JOIN {schema}.entries e ON e.key = g.key COLLATE "C"
        WHERE e.version IS DISTINCT FROM g.version LIMIT 1;
    IF FOUND THEN
        outcome := 'conflict';
        RETURN;
    END IF;
    number := {schema}.next_version(request);
    IF cardinality(delete_keys) > 0 THEN
        WITH gone AS (DELETE FROM {schema}.entries WHERE key = ANY (delete_keys) RETURNING key)
        INSERT INTO {schema}.deletions SELECT key, number FROM gone
            ON CONFLICT (key) DO UPDATE SET version = excluded.version;
        IF (SELECT count(*) FROM {schema}.deletions) > {deletions_max} THEN
            -- Half of them at once: not at each commit.
            SELECT version INTO oldest FROM {schema}.deletions
                ORDER BY version DESC OFFSET {deletions_max} / 2 LIMIT 1;
            DELETE FROM {schema}.deletions WHERE version <= oldest;
            UPDATE {schema}.counter SET history_start = oldest;
        END IF;
    END IF;
    IF cardinality(put_keys) > 0 THEN
        DELETE FROM {schema}.deletions WHERE key = ANY (put_keys);
        INSERT INTO {schema}.entries SELECT p.key, p.value, number FROM unnest(put_keys, put_values) AS p (key, value)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version;
    END IF;
    PERFORM {schema}.end_change(request, number);
    outcome := 'done';
END $$;

CREATE FUNCTION {schema}.void(request uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.begin_change();
    INSERT INTO {schema}.requests VALUES (request, clock_timestamp(), NULL) ON CONFLICT DO NOTHING;
END $$;

CREATE FUNCTION {schema}.register(
    request uuid, of_node integer, by_incarnation text, granted_ms bigint,
    OUT outcome text, OUT number bigint, OUT holder text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.begin_change();
    SELECT result INTO number FROM {schema}.requests WHERE id = request;
    IF FOUND THEN
        outcome := CASE WHEN number IS NULL THEN 'void' ELSE 'done' END;
        RETURN;
    END IF;
    SELECT epoch, incarnation INTO number, holder FROM {schema}.sessions WHERE node_id = of_node;
    IF FOUND AND holder <> by_incarnation THEN
        outcome := 'in use';
        RETURN;
    END IF;
    PERFORM {schema}.next_version(request);
    UPDATE {schema}.counter SET broker_epoch = broker_epoch + 1 RETURNING broker_epoch INTO number;
    DELETE FROM {schema}.sessions WHERE node_id = of_node;
    INSERT INTO {schema}.sessions (node_id, epoch, incarnation, timeout_ms, deadline) VALUES (
        of_node, number, by_incarnation, granted_ms, clock_timestamp() + granted_ms * interval '1 millisecond');
    PERFORM {schema}.end_change(request, number);
    outcome := 'done';
END $$;

CREATE FUNCTION {schema}.campaign(request uuid, by_session bigint, OUT outcome text, OUT number bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.begin_change();
    SELECT result INTO number FROM {schema}.requests WHERE id = request;
    IF FOUND THEN
        outcome := CASE WHEN number IS NULL THEN 'void' ELSE 'done' END;
    ELSIF NOT EXISTS (SELECT FROM {schema}.sessions WHERE epoch = by_session) THEN
        outcome := 'session lost';
    ELSIF EXISTS (SELECT FROM {schema}.sessions WHERE term_epoch > 0 AND epoch <> by_session) THEN
        outcome := 'held';
    ELSE
        PERFORM {schema}.next_version(request);
        UPDATE {schema}.counter SET term_epoch = term_epoch + 1 RETURNING term_epoch INTO number;
        UPDATE {schema}.sessions SET term_epoch = number WHERE epoch = by_session;
        PERFORM {schema}.end_change(request, number);
        outcome := 'done';
    END IF;
END $$;

-- Waits neither for the disk nor for a standby, nor behind commits.
CREATE FUNCTION {schema}.keep_alive(by_session bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE {schema}.sessions s SET deadline = clock_timestamp() + s.timeout_ms * interval '1 millisecond'
        WHERE s.epoch = by_session AND NOT {schema}.is_over(s.deadline, s.timeout_ms);
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM set_config('synchronous_commit', 'on', true);
    PERFORM {schema}.begin_change();
    RETURN false;
END $$;

CREATE FUNCTION {schema}.end_sessions(epochs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.begin_change();
    DELETE FROM {schema}.sessions s WHERE s.epoch = ANY (epochs);
    PERFORM {schema}.notify();
END $$;

CREATE FUNCTION {schema}.end_term(ended bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.begin_change();
    UPDATE {schema}.sessions s SET term_epoch = 0 WHERE s.term_epoch = ended;
    PERFORM {schema}.notify();
END $$;

CREATE FUNCTION {schema}.live_sessions() RETURNS TABLE (
    live_node integer, live_epoch bigint, live_incarnation text, live_term bigint, remaining_ms bigint
) LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM {schema}.sessions s WHERE {schema}.is_over(s.deadline, s.timeout_ms)) THEN
        PERFORM {schema}.begin_change();
    END IF;
    RETURN QUERY SELECT s.node_id, s.epoch, s.incarnation, s.term_epoch,
        ceil(extract(epoch FROM s.deadline - clock_timestamp()) * 1000)::bigint
        FROM {schema}.sessions s ORDER BY s.node_id;
END $$;
""",
)
MIGRATIONS: tuple[Sequence[str], ...] = (_FORMAT_1,)
"""The statements that make format n - 1 format n, for each n from 1."""


def channel(schema: str) -> str:
    """Return the name by which changes are notified."""
    return f"kqueue_{schema}"


def prepare_schema(
    connection: psycopg.Connection[tuple[object, ...]],
    schema: str,
    migrations: Sequence[Sequence[str]] = MIGRATIONS,
) -> None:
    """Create the schema, or bring it to the format of the last migration, in one transaction.

    Raises: StorageFailed: it is of a newer format, has other tables, or the database is not in
        UTF8. psycopg.Error.
    """
    if _format(connection, schema) == len(migrations):
        return
    names = {
        "schema": sql.Identifier(schema),
        "channel": sql.Literal(channel(schema)),
        "value_size_max": sql.Literal(VALUE_SIZE_MAX),
        "deletions_max": sql.Literal(DELETIONS_MAX),
        "history_max": sql.Literal(HISTORY_MAX),
        "kept_minutes": sql.SQL(str(REQUESTS_KEPT_MINUTES)),
    }
    with connection.transaction():
        # One of the brokers that start together does it, and the others find it done.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (zlib.crc32(channel(schema).encode()),))
        version = _format(connection, schema)
        if version is None:
            _create(connection, schema)
            version = 0
        if version > len(migrations):
            raise StorageFailed(
                f"schema {schema}: expected format {len(migrations)}, found {version}; a newer kqueue wrote it"
            )
        for statements in migrations[version:]:
            for statement in statements:
                connection.execute(sql.SQL(statement).format(**names))
        connection.execute(sql.SQL("UPDATE {schema}.format SET version = %s").format(**names), (len(migrations),))


def _format(connection: psycopg.Connection[tuple[object, ...]], schema: str) -> int | None:
    """Return the format; None: the schema has none."""
    # Not to_regclass(): it may answer from a cache that a commit of others has not reached yet.
    tables = "SELECT true FROM pg_tables WHERE schemaname = %s AND tablename = 'format'"
    if connection.execute(tables, (schema,)).fetchone() is None:
        return None
    query = sql.SQL("SELECT version FROM {}.format").format(sql.Identifier(schema))
    row = connection.execute(query).fetchone()
    version = None if row is None else row[0]
    if not isinstance(version, int):
        raise StorageFailed(f"schema {schema}: its table format has no number; it is no metadata store of kqueue")
    return version


def _create(connection: psycopg.Connection[tuple[object, ...]], schema: str) -> None:
    encoding = connection.execute("SHOW server_encoding").fetchone()
    if encoding != ("UTF8",):
        raise StorageFailed(f"the database has the encoding {encoding and encoding[0]}: create one in UTF8 for kqueue")
    exists = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
    if exists is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    tables = connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = %s LIMIT 1", (schema,)).fetchone()
    if tables is not None:
        raise StorageFailed(
            f"schema {schema} has tables, and is no metadata store of kqueue: name another one with schema=NAME"
        )
    connection.execute(sql.SQL("CREATE TABLE {}.format (version integer NOT NULL)").format(sql.Identifier(schema)))
    connection.execute(sql.SQL("INSERT INTO {}.format VALUES (0)").format(sql.Identifier(schema)))
