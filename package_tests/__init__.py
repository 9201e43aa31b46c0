"""Tests of the distributions: their contents, their installation where there is no compiler."""
