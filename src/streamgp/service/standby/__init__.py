"""Two services with the same streams: the leader, which writes, and its standby, which has all that was acknowledged.

`epoch` says on disk which of the two a directory is, `leadership` when the leader may acknowledge, `shipping` how
entries and whole streams go from one log to the other, `following` what a standby does all the time.
"""
