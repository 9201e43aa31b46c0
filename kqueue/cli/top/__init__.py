"""`kqueue top`: a live screen of a cluster, or one picture of it.

`feed` reads the cluster in a thread (`kqueue.admin`), `view` is what the keys have chosen,
`sections` has the columns and rows, `screen` draws them, `live` is the loop, and `command` has the
options.
"""
