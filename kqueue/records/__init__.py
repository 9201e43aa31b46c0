"""Floor 3: bytes <-> record batches. Formats, codecs and partitioners; no files, no sockets, no
state of a broker.
"""
