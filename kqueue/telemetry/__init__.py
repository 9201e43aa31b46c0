"""Metrics and health of a broker for those who run it: `/metrics`, `/healthz` and `/readyz`.

`metrics` is the table of all metrics, from which the page and the tests derive. `sample_reader`
reads the plain counters of the broker into `samples`, in slices on its own thread; the modules
`*_samples` have a subject each. `exposition` turns them into families of prometheus-client, under
kqueue's names or those of `foreign_names`; `endpoint` serves them from threads of its own, and
`otlp_push` pushes them as `otlp_messages`. `health` says what keeps a broker from serving. Nothing
below imports this package; without `kqueue.metrics.listener` and `kqueue.metrics.otlp.endpoint` it
is not loaded.
"""
