"""The bridge between a broker and the live service: rows come as messages, predictions go out as such.

From the bottom up: `messages` (rows in messages, and which of them go in one request), `mqtt` (the session with a
broker), `relay` (from the one to the other, at least once), `run` and `command` (the process).
What does not live here: the service. The bridge is a client of it like any other, so that a broker that is gone or
floods nobody but the bridge, tokens and limits hold as for all, and either may be restarted without the other.
"""
