"""Programs that measure time and memory: medians over runs in turn, each beside what it is compared with."""
