"""``df.write`` and ``df.writeStream.format("kqueue")``: rows become record batches where they are,
and go to the brokers from there.

`writer` is what Spark calls; all others know no Spark: `options`, `columns`, `placing`, `rows` and
`sending` for both deliveries, `journal`, `staging`, `committing` and `copying` for exactly once,
and `forgetting` for what is left of queries that are gone.

A task gathers rows, chooses their partitions by whole columns, and encodes them from Arrow's
buffers, while a thread sends what is ready.

**At least once** (the default): each task sends its rows as it goes. Batches carry a producer's id
and sequences, so that what is sent again over the wire is appended once; but a task or a
micro-batch that Spark runs again sends its rows again.

**Exactly once** (``delivery=exactly-once``) takes three steps, of which any can be cut off
anywhere, and be done again by anybody:

1. *Stage.* Tasks put their batches, ready as they are, on the shelves of a topic of the query's own (``_kqueue-sink-<query id>``,
   partitions from 1 on), and tell the driver where each lies. Nothing shows in the topics that are written to.
2. *Decide.* Once all tasks are done the driver appends to the journal (partition 0 of that topic) which staged batches make this (query id,
   batch id), in which order, with which sequences of the query's one producer id. The first such entry holds; a later one for the same
   batch, of a driver that was thought dead, is passed over, and who wrote it does as the first one says.
3. *Copy.* The batches go from the shelves to their partitions with the sequences that were decided. Who copies a second time, or beside
   another, sends the same bytes under the same sequences, so the brokers append each once; where much was copied already, the ends of the
   partitions are read first to learn how far. Then the journal says that it is done, and what lies before is dropped.

A task that is run again for a batch that was decided stages nothing, and a batch that is done is
not copied. So rows need not come in the same order, nor split the same way, when Spark computes a
batch again. The price: each row is written twice, and read once between. From the first to the last
row of step 3 readers can see a part of a batch; brokers without transactions have no way to hide
it.
"""
