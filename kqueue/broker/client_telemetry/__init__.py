"""Client telemetry (KIP-714): which metrics clients push, and where they go.

`ClientTelemetry` (`subscriptions`) tells each client what to push and checks its pushes;
`receivers` keep the metrics or hand them to a plugin; `otlp_metrics` reads their format.
Called by the handlers of GetTelemetrySubscriptions and PushTelemetry. Imports settings only.
"""
