"""`kqueue tier recover`: makes the topics of a tier again in a cluster that has lost them."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kqueue.base.clock import wall_ms
from kqueue.base.errors import SettingError
from kqueue.base.names import uuid_text
from kqueue.base.text import counted
from kqueue.cli.output import columns, output_option, print_json
from kqueue.cli.tier.tier_options import opened_tier, tier_errors, topic_option, url_argument

if TYPE_CHECKING:
    from kqueue.broker.cluster.topic_recovery import RecoveredTopic
    from kqueue.log_tools.tier.recovery import TopicPlan
    from kqueue.metadata.store import MetadataStore
    from kqueue.tier.stores.contract import TierStore

INCOMPLETE = 1


class _Target(NamedTuple):
    """Where topics are made again.

    folder: of a single broker; None: the store is a cluster's. cluster_id: None: it is new.
    """

    store: MetadataStore
    folder: Path | None
    cluster_id: str | None


@click.command()
@url_argument
@topic_option
@click.option(
    "--store",
    metavar="STORE",
    help="The cluster's store, as kqueue.cluster.store names it: sqlite:PATH, zookeeper:... or postgresql://...",
)
@click.option("-c", "--config", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="A broker's server.properties, for the store and its password.")  # fmt: skip
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="The data folder of a single broker, which is stopped or was never started.",
)
@click.option("--replication-factor", type=click.IntRange(min=1), metavar="N", help="In place of what topics had.")
@click.option("--take-over", is_flag=True, help="Make the tier that of this cluster; the former one is gone for good.")
@click.option("--dry-run", is_flag=True, help="Only report; change nothing.")
@output_option
def recover(
    url: str,
    topics: tuple[str, ...],
    store: str | None,
    file: Path | None,
    folder: Path | None,
    replication_factor: int | None,
    take_over: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make the topics of the tier at URL again, after brokers and metadata were lost.

    \b
      kqueue tier recover s3://bucket/prefix --dry-run
      kqueue tier recover s3://bucket/prefix --folder kqueue-data
      kqueue tier recover s3://bucket/prefix --store sqlite:/shared/cluster.db
      kqueue tier recover s3://bucket/prefix -c server.properties --take-over

    Topics get their ids, partitions and settings. Their records are read from the tier at once, and
    new ones follow the last that was copied. What was not copied is lost; the report says how far
    each partition goes, and what is missing in between. A manifest that is lost or damaged is made
    again from the segments.

    With --folder the broker must be stopped. With --store the brokers of the new cluster must run.
    Run it first on a new, empty store: that gets the id of the lost cluster, so that the tier is
    its own. A cluster with another id needs --take-over.

    Exit status: 0 if all is recovered, 1 if something is missing or was left out, 2 if there is no
    tier.
    """
    from kqueue.cli.log.progress_bar import count_bar
    from kqueue.log_tools.tier.recovery import plan_recovery, rebuild_manifests

    if not dry_run and folder is None and store is None and file is None:
        raise click.UsageError("name where to: --folder of a single broker, or --store of a cluster; or --dry-run")
    if folder is not None and (store is not None or file is not None):
        raise click.UsageError("name either --folder or the store of a cluster, not both")
    with opened_tier(url, topics) as tier:
        with count_bar("Reading partitions") as progress:
            plans = plan_recovery(tier, topics, check_setting=_check_setting, progress=progress)
        result: dict[str, Any] = {"location": tier.location, "topics": [plan.as_json() for plan in plans]}
        made: list[str] = []
        refusals: list[str] = []
        if not dry_run:
            with _target(folder, store, file) as target:
                _check_cluster(tier, target, take_over)
                result["rebuilt_manifests"] = rebuild_manifests(tier, plans)
                made, refusals = _recover(tier, target, plans, replication_factor)
        result |= {"dry_run": dry_run, "recovered": made, "refused": refusals}
    if as_json:
        print_json(result)
    else:
        _show(plans, made, dry_run)
        for refusal in refusals:
            click.echo(f"Error: {refusal}.", err=True)
    if refusals or any(_has_problems(plan) for plan in plans):
        raise click.exceptions.Exit(INCOMPLETE)


def _check_setting(name: str, value: str) -> str | None:
    from kqueue.base.config import Config
    from kqueue.config.catalog import CATALOG

    try:
        Config(CATALOG).for_topic({name: value})
    except SettingError as error:
        return str(error)
    return None


@contextlib.contextmanager
def _target(folder: Path | None, store: str | None, file: Path | None) -> Iterator[_Target]:
    """Yield the metadata store to change; that of a folder is locked. Raises: ClickException."""
    from kqueue.broker.cluster.topic_recovery import cluster_id_of

    if folder is not None:
        from kqueue.cli.offline_store import offline_store
        from kqueue.log.folders.data_folder import read_properties
        from kqueue.storage import LocalStorage

        with offline_store(folder) as opened:
            yield _Target(opened, folder, read_properties(LocalStorage(folder)).get("cluster.id"))
        return
    from kqueue.config.data_folders import open_cluster_store
    from kqueue.config.plugins import PluginObjects
    from kqueue.config.properties import make_config, read_values
    from kqueue.replication.config import CLUSTER_STORE, GIVEN_STORE

    with tier_errors():
        pairs = [] if store is None else [f"{CLUSTER_STORE}={store}"]
        config = make_config(read_values(file, os.environ, pairs))
        cluster = None if config[CLUSTER_STORE] == GIVEN_STORE else open_cluster_store(config, PluginObjects())
        if cluster is None:
            raise click.UsageError(f"{file} names no {CLUSTER_STORE}: add --store, or name a single broker's --folder")
        try:
            yield _Target(cluster, None, cluster_id_of(cluster))
        finally:
            cluster.close()


def _check_cluster(tier: TierStore, target: _Target, take_over: bool) -> None:
    """Make tier and target those of one cluster. Raises: ClickException: they are not."""
    from kqueue.broker.cluster.topic_recovery import found_cluster
    from kqueue.log_tools.tier.takeover import take_over as take
    from kqueue.tier.catalog import read_tier_record
    from kqueue.tier.errors import TierCorrupt

    try:
        record = read_tier_record(tier)
    except TierCorrupt:
        if not take_over:
            raise
        record = None
    if target.cluster_id is not None:
        if record is not None and record.cluster_id != target.cluster_id and not take_over:
            raise click.ClickException(
                f"{tier.location} is the tier of cluster {record.cluster_id}, and this one is {target.cluster_id}. If "
                "that cluster is gone for good, add --take-over."
            )
        if record is None or record.cluster_id != target.cluster_id:
            take(tier, target.cluster_id, wall_ms())
        return
    if record is None:
        raise click.ClickException(
            f"{tier.location} does not say whose it is: start the new brokers once, then add --take-over."
        )
    if target.folder is not None:
        _write_identity(target.folder, record.cluster_id)
        return
    found_cluster(target.store, record.cluster_id)
    raise click.ClickException(
        f"the store was new, and is that of cluster {record.cluster_id} now. Start its brokers with this store and "
        "kqueue.tier.url, then run this command again."
    )


def _write_identity(folder: Path, cluster_id: str) -> None:
    """Give a new data folder the id of the lost cluster; its broker adds the rest."""
    from kqueue.log.folders.data_folder import read_properties
    from kqueue.log.formats.checkpoints import META_PROPERTIES, encode_properties
    from kqueue.storage import LocalStorage

    storage = LocalStorage(folder)
    values = {"version": "1", **read_properties(storage), "cluster.id": cluster_id}
    storage.write_atomic(META_PROPERTIES, encode_properties(values, wall_ms()))


def _recover(
    tier: TierStore, target: _Target, plans: Sequence[TopicPlan], factor: int | None
) -> tuple[list[str], list[str]]:
    """Return the topics that were made, and why others were not. Raises: KqueueError."""
    from kqueue.broker.cluster import topic_recovery
    from kqueue.cli.log.progress_bar import count_bar
    from kqueue.log_tools.tier.recovery import producer_ids

    wanted = {plan.topic.topic: plan for plan in plans if not plan.skipped}
    topics = [_topic_of(plan, factor) for plan in wanted.values()]
    missing, refusals = topic_recovery.missing_topics(target.store, topics)
    with count_bar("Reading producers") as progress:
        ids = producer_ids(tier, [one for topic in missing for one in wanted[topic.name].partitions], progress=progress)
    known = None if ids is None else topic_recovery.ProducerIdRange(*ids)
    if not missing:
        return [], refusals
    if target.folder is not None:
        topic_recovery.recover_into_single_broker(target.store, missing, known)
    else:
        topic_recovery.recover_into_cluster(target.store, missing, known, random.Random())
    return [topic.name for topic in missing], refusals


def _topic_of(plan: TopicPlan, factor: int | None) -> RecoveredTopic:
    from kqueue.broker.cluster.topic_recovery import RecoveredTopic

    epochs = [partition.leader_epoch for partition in plan.partitions]
    chosen = factor or plan.replication_factor or 1
    return RecoveredTopic(plan.topic.topic, plan.topic.topic_id, plan.configs, epochs, chosen)


def _has_problems(plan: TopicPlan) -> bool:
    return bool(plan.problems or any(partition.problems for partition in plan.partitions))


def _show(plans: Sequence[TopicPlan], made: Sequence[str], dry_run: bool) -> None:
    rows = []
    for plan in plans:
        for one in plan.partitions:
            state = "nothing in the tier" if one.end_offset == one.start_offset else "whole"
            state = counted(len(one.problems), "problem") if one.problems else state
            rows.append((one.partition, one.start_offset, one.end_offset, one.leader_epoch, state))
    if rows:
        click.echo(columns(("PARTITION", "START", "END", "LEADER EPOCH", "STATE"), rows))
    for plan in plans:
        name = f"{plan.topic.topic}, id {uuid_text(plan.topic.topic_id)}"
        if plan.skipped:
            click.echo(f"Left out: {name}: {plan.skipped}.")
        for problem in plan.problems:
            click.echo(f"Missing: {name}: {problem}.")
        for one in plan.partitions:
            for problem in one.problems:
                click.echo(f"Missing: {one.partition}: {problem}.")
    if dry_run:
        count = sum(not plan.skipped for plan in plans)
        click.echo(f"{counted(count, 'topic')} would be recovered. Nothing was changed.")
        return
    click.echo(f"Recovered {counted(len(made), 'topic')}{': ' + ', '.join(made) if made else ''}.")
    if made:
        click.echo("Records that were not copied before the brokers were lost are lost: END is where new ones begin.")
