"""Campaigns against bad input, faults of hardware or of the operating system, and very long streams.

They are apart from ``accuracy`` since most of them pass or fail rather than score: runs that are killed, files and
calls that are generated, processes that must agree bit for bit, soaks. Small versions of them are tests in the suite.
The others, corrupted rows, missing inputs and jumps, say what a fault costs beside clean rows.
docs/research/robustness.md has all of their figures.
"""
