"""`kqueue demo pipeline`: the flights of 2013 through a broker and Spark while they are told, and
every sum compared with the truth.
"""
