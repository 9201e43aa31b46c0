"""The classic group protocol: members join a generation, their leader assigns."""
