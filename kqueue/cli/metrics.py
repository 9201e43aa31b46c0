"""`kqueue metrics`: what brokers count, and files for Prometheus and Grafana that show it."""

from __future__ import annotations

import click

from kqueue.cli.output import columns, output_option, print_json


@click.group()
def metrics() -> None:
    """List the metrics of brokers; print a dashboard for Grafana, or alerts for Prometheus.

    \b
      kqueue serve --set kqueue.metrics.listener=127.0.0.1:9404
      kqueue metrics list
      kqueue metrics dashboard > kqueue-dashboard.json
      kqueue metrics alerts > kqueue-alerts.yml
    """


@metrics.command("list")
@output_option
def list_metrics(as_json: bool) -> None:
    """List all metrics, with what Kafka calls the same.

    \b
      kqueue metrics list
      kqueue metrics list -o json
    """
    from kqueue.telemetry.metrics import METRICS

    if as_json:
        print_json(
            [
                {
                    "name": metric.name,
                    "type": metric.kind.value,
                    "labels": list(metric.labels),
                    "meaning": metric.meaning,
                    "kafka": metric.kafka or None,
                }
                for metric in METRICS
            ]
        )
        return
    rows = ((metric.name, metric.kind.value, ", ".join(metric.labels), metric.meaning) for metric in METRICS)
    click.echo(columns(("METRIC", "TYPE", "LABELS", "MEANING"), rows))


@metrics.command()
def dashboard() -> None:
    """Print a dashboard as JSON: in Grafana, Dashboards, New, Import.

    \b
      kqueue metrics dashboard > kqueue-dashboard.json
    """
    from kqueue.telemetry.dashboard import dashboard

    print_json(dashboard())


@metrics.command()
def alerts() -> None:
    """Print rules for `rule_files` in prometheus.yml; the job of the brokers is to be `kqueue`.

    \b
      kqueue metrics alerts > kqueue-alerts.yml
    """
    from kqueue.telemetry.alerts import rules

    click.echo(rules(), nl=False)
