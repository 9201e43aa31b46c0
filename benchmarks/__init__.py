"""`python -m benchmarks` prints speed and memory on this machine beside their targets."""
