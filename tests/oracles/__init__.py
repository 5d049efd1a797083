"""Slow textbook versions, in plain NumPy, of what the library does fast."""
