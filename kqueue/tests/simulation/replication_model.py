"""A model of replication: random steps with faults, and invariants after each of them.

Brokers produce, fetch, flush, crash, pause, lose their sessions and their unflushed records, in a
`ReplicationWorld`. At the end of a run all faults end, and the replicas must come together. A seed
determines everything; even seeds flush before anything is visible, odd ones do not.

    python -m kqueue.tests.simulation.replication_model --seeds 100000
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from kqueue.base.clock import monotonic_s
from kqueue.tests.simulation.replication_world import (
    BROKERS,
    LAG_MAX_MS,
    MIN_ISR,
    InvariantViolated,
    Node,
    ReplicationWorld,
    Request,
)

IN_FLIGHT_MAX = 8
STEPS = 400
PROGRESS_SECONDS = 2
TRACE_LINES = 200


class ReplicationModel(ReplicationWorld):
    """One run of a seed."""

    # --- steps

    def step(self) -> None:
        """Do something that may happen now, and check the invariants."""
        node = self.nodes[int(self._random() * BROKERS)]
        choice = self._random()
        if choice < 0.66:
            self.step_of_replication(node, choice / 0.66)
        elif choice < 0.96:
            self.step_of_metadata(node, (choice - 0.66) / 0.30)
        else:
            self.step_of_faults(node, (choice - 0.96) / 0.04)
        self.check()

    def step_of_replication(self, node: Node, choice: float) -> None:
        """Fetch, produce, deliver a message, or flush."""
        if choice < 0.5:
            if node.runs:
                request = self.fetch(node)
                if request is None:
                    self.produce(node)
                elif choice < 0.25:
                    self.requests.append(request)
                    del self.requests[:-IN_FLIGHT_MAX]
                else:
                    self.exchange(request)
        elif choice < 0.65:
            if node.runs:
                self.produce(node)
        elif choice < 0.8:
            if self.requests:
                response = self.answer(self._take(self.requests))
                if response is not None:
                    self.responses.append(response)
                    del self.responses[:-IN_FLIGHT_MAX]
        elif choice < 0.95:
            if self.responses:
                self.receive(self._take(self.responses))
        elif node.runs:
            self.flush(node)

    def step_of_metadata(self, node: Node, choice: float) -> None:
        """Refresh a view, decide, propose, commit, or let time pass."""
        if choice < 0.3:
            if node.runs:
                self.refresh(node)
        elif choice < 0.55:
            self.control_once()
        elif choice < 0.75:
            if node.runs:
                self.propose(node)
        elif choice < 0.93:
            if self.commits:
                self.commit(self._take(self.commits))
        elif choice < 0.98:
            self.now_ms += self._rng.randint(1, LAG_MAX_MS)
        else:
            self.balance()

    def step_of_faults(self, node: Node, choice: float) -> None:
        """Stop or start a broker, pause it, end its session, or change the controller."""
        if not node.is_up:
            if choice < 0.5:
                self.start(node)
            elif choice < 0.7:
                self.sessions.pop(node.id, None)
        elif choice < 0.15:
            self.crash(node, power_cut=self._random() < 0.7)
        elif choice < 0.2:
            self.crash(node, power_cut=True)
            self.start(node)  # before anybody noticed
        elif choice < 0.25:
            self.stop(node)
        elif choice < 0.4:
            node.is_paused = not node.is_paused
        elif choice < 0.5:
            if node.is_paused or self._random() < 0.3:
                self.sessions.pop(node.id, None)
                self.note("session lost", node)
        elif choice < 0.8:
            node.is_paused = False
            if self.sessions.get(node.id) != node.broker_epoch:
                self.note("register", node)
                self.register(node, clean=True)  # it runs on, and has lost nothing
        elif choice < 0.85:
            broker = self.image.brokers[node.id]
            if node.runs and broker.epoch == node.broker_epoch and node.id in self.sessions:
                self.put_broker(broker._replace(shutting_down=True))
        elif choice < 0.90:
            self.decided = []  # another controller
        elif choice < 0.95:
            self.reassign()
        elif self.flushes:  # else fewer replicas may lose what is committed
            node.min_isr = self._rng.randint(1, MIN_ISR)

    def exchange(self, request: Request) -> None:
        """Deliver a fetch and its answer at once."""
        response = self.answer(request)
        if response is not None:
            self.receive(response)

    def _take(self, messages: list[Any]) -> Any:
        return messages.pop(int(self._random() * len(messages)))

    # --- invariants

    def check(self) -> None:
        """Check the invariants. Raises InvariantViolated."""
        if self.ended:
            return
        committed, count = self.committed, len(self.committed)
        partition, brokers = self.partition, self.image.brokers
        for node in self.nodes:
            end = node.high_watermark
            if end > len(node.log):
                raise InvariantViolated(f"the high watermark {end} of broker {node.id} is beyond its log")
            if node.log[:end] != committed[:end]:
                raise InvariantViolated(f"committed records of broker {node.id} differ: {node.log}, {committed}")
        for id in partition.isr + partition.elr:
            node, broker = self.nodes[id], brokers[id]
            if node.is_up and (broker.clean or not broker.fenced) and node.log[:count] != committed:
                raise InvariantViolated(f"broker {id}, in sync or eligible, lacks committed records: {partition}")
        if partition.leader >= 0:
            leader = self.nodes[partition.leader].leader
            if leader is not None and leader.leader_epoch == partition.leader_epoch:
                view = leader.registration
                if not leader.is_under_min_isr(self.nodes[partition.leader].min_isr) and not view.elr:
                    missing = {*partition.isr, *partition.elr} - leader.maximal_isr
                    if missing:
                        raise InvariantViolated(f"{missing} in sync or eligible, but not counted: {partition}")
        if self.unclean_crashes < MIN_ISR and all(node.log[:count] != committed for node in self.nodes):
            raise InvariantViolated("committed records are nowhere")

    def heal(self) -> None:
        """End all faults. All replicas must be in sync again, and all records committed."""
        for node in self.nodes:
            node.is_paused, node.min_isr = False, MIN_ISR
            if not node.is_up:
                self.start(node)
            elif self.sessions.get(node.id) != node.broker_epoch or self.image.brokers[node.id].shutting_down:
                self.register(node, clean=True)
        for _ in range(60):
            while self.control_once():
                if self.ended:
                    return
            for node in self.nodes:
                self.refresh(node)
                request = self.fetch(node)
                if request is not None:
                    self.exchange(request)
                self.flush(node)
                self.propose(node)
            while self.commits:
                self.commit(self.commits.pop(0))
            self.check()
            now = self.partition
            replicas = [self.nodes[id] for id in now.replicas]
            ends = {len(node.log) for node in replicas} | {node.high_watermark for node in replicas}
            if now.isr == now.replicas and not now.adding and not now.removing and len(ends) == 1:
                return
        raise InvariantViolated(f"the replicas do not come together: {self.partition}")

    def run(self, steps: int) -> None:
        """Run `steps` steps, or until an unclean election, and heal."""
        for _ in range(steps):
            self.step()
            if self.ended:
                return
        self.heal()


def violations(
    seeds: range, steps: int = STEPS, model: type[ReplicationModel] = ReplicationModel
) -> Iterator[tuple[int, str | None]]:
    """Run the seeds one by one; yield each with what was violated, or None."""
    for seed in seeds:
        try:
            model(seed).run(steps)
            yield seed, None
        except InvariantViolated as violated:
            yield seed, str(violated)


def trace(seed: int, steps: int = STEPS, model: type[ReplicationModel] = ReplicationModel) -> list[str]:
    """Return all that happens with a seed, a line for each; the violation, if any, is the last."""
    lines: list[str] = []
    try:
        model(seed, lines.append).run(steps)
    except InvariantViolated as violated:
        lines.append(f"VIOLATED: {violated}")
    return lines


@click.command()
@click.option("--seeds", default=10_000, help="How many seeds to run.")
@click.option("--first", default=0, help="The first seed.")
@click.option("--steps", default=STEPS, help="Steps of each seed.")
def main(seeds: int, first: int, steps: int) -> None:
    """Run the model of replication; print the trace of a seed that violates an invariant."""
    start = shown = monotonic_s()
    for count, (seed, violated) in enumerate(violations(range(first, first + seeds), steps), 1):
        if violated is not None:
            for line in trace(seed, steps)[-TRACE_LINES:]:
                click.echo(line)
            raise click.ClickException(f"seed {seed} (--first {seed} --seeds 1 --steps {steps}): {violated}")
        now = monotonic_s()
        if now - shown >= PROGRESS_SECONDS or count == seeds:
            shown = now
            click.echo(f"{count:,} of {seeds:,} seeds, {count / (now - start):,.0f}/s, no violation", err=True)
    click.echo(f"{seeds:,} seeds of {steps} steps: no invariant was violated")


if __name__ == "__main__":
    main()
