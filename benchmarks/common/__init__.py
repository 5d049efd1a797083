"""Modules that several benchmarks use; none is a program."""
