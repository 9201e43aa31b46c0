"""Layer 3: record batches. Formats, codecs and partitioners, without files, sockets or broker
state.
"""
