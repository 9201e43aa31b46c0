"""Record batches: formats, codecs, partitioners, Arrow columns; no files, sockets or brokers."""
