"""Arrays and numbers, of no model in particular: linear algebra, distributions, mixtures, standardisation, threads.

A file here knows nothing of streams or experts.
"""
