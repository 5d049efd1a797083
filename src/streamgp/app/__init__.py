"""The `streamgp` command: what runs a stream from its file, and what it writes."""
