"""Fits that are made once, to the rows of the warm-up: evidence, its optimum, samples around it, and screening."""
