"""What kqueue costs and yields on this machine: `python -m benchmarks` prints it beside the aims,
in a few minutes.
"""
