"""What several benchmarks use; nothing here is a program."""
