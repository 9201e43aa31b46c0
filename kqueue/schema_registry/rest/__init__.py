"""The REST API over HTTP: an ASGI application, with a module per resource.

`app.registry_app` composes it. `contract` says what it asks of its server: who leads, who the
user is, and what the user may do. Answers are those of Confluent's registry.
"""
