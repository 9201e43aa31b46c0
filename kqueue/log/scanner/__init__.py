"""Reading batches from segment files: framing, checksums, order, resynchronization."""
