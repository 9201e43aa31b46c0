"""Makes a release: `python -m release`, which a person starts. It publishes nothing by itself."""
