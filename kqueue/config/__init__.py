"""Where a broker's settings come from and what each one does: catalog, files, environment, plugins."""
