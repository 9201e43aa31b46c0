"""Metrics and health of a broker for those who run it: `/metrics`, `/healthz` and `/readyz`.

`metrics` is the table of all metrics, from which the page and the tests derive. `samples` reads the
plain counters of the broker, in slices on its own thread. `exposition` turns them into families of
prometheus-client, `endpoint` serves them from threads of its own, `health` says what keeps a broker
from serving. Nothing below imports this package; without `kqueue.metrics.listener` it is not
loaded.
"""
