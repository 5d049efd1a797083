"""The online ensemble for numbers: its model, delayed feedback, single rows, and the fit to the warm-up."""
