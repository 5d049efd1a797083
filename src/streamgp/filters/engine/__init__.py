"""Engines that run an ensemble's filters: compiled by XLA, or in threads of the CPU."""
