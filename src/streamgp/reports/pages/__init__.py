"""What the pages of a run show, by the kind of its targets."""
