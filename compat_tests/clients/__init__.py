"""Scenarios that run unchanged against kafka-python, aiokafka and confluent-kafka.

Each client has one adapter; each client version has one tox environment.
"""
