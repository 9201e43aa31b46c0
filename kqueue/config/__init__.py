"""Settings of a broker: their sources (catalog, files, environment, plugins) and effects."""
