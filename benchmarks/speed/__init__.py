"""How long things take, and how much memory: medians over runs in turn, each beside what it is compared with."""
