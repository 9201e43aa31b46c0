"""Reads batches from segment files: one loop over the file, four policies for bytes that are wrong.

| policy | call | on bytes that are no valid batch |
|---|---|---|
| stop | `BatchScanner` | ends; `BatchScanner.stop` holds the position and the fault |
| raise | `scan` | raises CorruptBatch |
| report | `scan_reporting` | yields the batch with its fault, skips it by its length |
| resync | `resync.scan_resyncing` | yields the `CorruptRange`, continues at the next batch |

`batch_scanner` checks what a batch's own bytes can prove: length, magic, header, checksum, records.
`header_validation` checks the fields outside the checksum against the neighbouring batches.
"""
