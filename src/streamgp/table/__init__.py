"""Rows of any kind to typed columns, and what is wrong with them: the judgement that every front door shares.

Pure functions on lines, names and columns: nothing here opens a file or knows a model.
"""
