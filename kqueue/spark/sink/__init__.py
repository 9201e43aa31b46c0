"""``df.write`` and ``df.writeStream.format("kqueue")``: rows become batches in tasks.

`writer` has the classes that Spark calls; the other modules do not import pyspark. Both delivery
modes use `options`, `columns`, `row_partitioning`, `batcher` and `producer_pipeline`. Exactly-once
adds `journal`, `staging`, `batch_commit`, `batch_copy` and `staging_cleanup`; transactional
delivery has `transaction_ids`, `transaction_write` and `transaction_commit` instead of staging and
copying.

A task gathers rows, chooses partitions for whole columns, and encodes batches from Arrow buffers. A
thread sends finished batches in the meantime.

**At least once** (default): each task sends its rows directly. Batches carry a producer id and
sequences, so a retried request appends each batch once. A task or micro-batch that Spark repeats
sends its rows again.

**Exactly once** (``delivery=exactly-once``) has three steps. Each can be interrupted at any point
and repeated by any process:

1. *Stage.* Tasks append their finished batches to staging partitions of a topic of the query
   (``_kqueue-sink-<query id>``, partitions from 1 on), and report the offset of each batch to the
   driver. Target topics are unchanged.
2. *Decide.* After all tasks the driver appends an entry to the journal (partition 0 of that topic).
   It lists the staged batches of this (query id, batch id), their order, and their sequences under
   the query's one producer id. The first entry of a batch is valid. A later one, of a driver that
   was replaced, is ignored, and that driver follows the first entry.
3. *Copy.* The batches are copied to the target partitions with the decided sequences. A repeated or
   concurrent copy sends the same bytes and sequences, so brokers append each batch once. After an
   interruption the ends of the target partitions tell how much was copied. Then the journal marks
   the batch done, and staged data before it is deleted.

A repeated task of a decided batch stages nothing; a batch that is done is not copied. So a repeated
batch may have its rows in another order or in other tasks. Cost: each row is written twice and read
once. During step 3 readers can see part of a batch.

**Transactional** (``delivery=transactional``) writes rows once, and readers of committed records
see all of a batch or nothing:

1. *Write.* Each task writes its rows to the target partitions in a transaction of its own, which it
   leaves open. Before its first batch in a partition a record of the batch's *guard* is there: a
   transaction of its own, which the first task chooses in the journal. Tasks send its record with
   the same producer and sequence, so brokers append it once. Readers stop before it.
2. *Decide.* The driver appends the tasks' transactions to the journal.
3. *Commit.* The driver commits them, aborts those of failed and speculative attempts, and aborts
   the guard, which shows the batch. Then the journal marks the batch done.

Transactions are ended with the producer id and epoch that the journal has, so any process can
finish a decided batch. Nobody uses a transactional id again before its batch is done, so no attempt
aborts another's rows. Cost: each row is written once, and a few requests for each task.
"""
