"""Tests of what runs kqueue elsewhere: the image, compose files, Kubernetes, systemd, and the
containers of tests.
"""
