"""Tools for tiers, which read the store and need no broker: list, verify, compare, rebuild.

`inventory` lists what a tier has; `verification` compares manifests with objects; `comparison`
compares the tier with the logs of a data folder; `manifest_rebuild` makes a lost manifest again
from the segments; `recovery` plans which topics a new cluster gets; `takeover` makes the tier that
of another cluster. Called by `kqueue tier ...`.
"""
