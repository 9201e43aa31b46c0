"""The console: pages in a browser that show a Kafka cluster, and change it where that is allowed.

`app.create_app` composes it: `access` decides who may see and change what, `connections` lends
clients of `kqueue.client`, `pages` has one module per subject. All pages are made on the server,
and work without a script. Called by `kqueue console`. Imports `client` and `config`; knows no
broker from inside, so any broker that speaks Kafka's protocol will do.
"""
