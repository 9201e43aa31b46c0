"""Configs: settings that change at run time, of topics, brokers, groups, loggers, subscriptions.

`DynamicConfigs` applies alter requests: it validates, stores and puts values into effect;
`config_targets` are the kinds of resources. `ineffective_settings` warns of what does nothing.
Called by the handlers of the configuration APIs and by the broker's start. Imports `topics`.
"""
