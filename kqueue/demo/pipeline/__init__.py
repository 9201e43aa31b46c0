"""`kqueue demo pipeline`: the flights of 2013 through a broker and Spark as a stream.

Every sum is compared with one computed in plain Python.
"""
