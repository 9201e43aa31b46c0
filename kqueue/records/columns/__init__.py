"""Record batches to columns of Apache Arrow and back, without a Python object for each record. Needs pyarrow (`kqueue[arrow]`).

With numba (`kqueue[fast]`) the loops over records are compiled; without it they are plain Python, and do the same.
"""
