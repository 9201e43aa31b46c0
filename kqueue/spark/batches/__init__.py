"""Batches of files of which readers see all or nothing; archives and tables are made of them."""

from kqueue.spark.batches.batches import Batch, Batches, Staged, batch_name
from kqueue.spark.batches.readers import whole_files

__all__ = ["Batch", "Batches", "Staged", "batch_name", "whole_files"]
