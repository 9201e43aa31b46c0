"""Opens logs: recovery after a crash, damage in sealed segments, verification before reads."""
