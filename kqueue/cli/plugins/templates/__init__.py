"""The texts of which `kqueue plugins new` makes a distribution, with `string.Template`'s places
($name and so on) for the names: KIND-module.py.txt, KIND-test.py.txt and KIND-README.md.txt for
each kind, and one pyproject.toml.txt for all.
"""
