"""The sections of the page of a run, one module for each kind of target or subject."""
