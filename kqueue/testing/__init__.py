"""The test kit that ships with kqueue: clocks, faulty storage, public checkers of the contracts. Nothing of the broker imports it."""
