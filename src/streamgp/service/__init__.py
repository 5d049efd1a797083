"""The live service: streams over HTTP that predict and learn, and lose nothing that was acknowledged.

From the bottom up: `problems` (refusals), `config` (what a stream is), `packing` and `log` (what came, on disk),
`archive` (what came earlier, kept for so many days or megabytes) and `past` (the return to it), `payload` (rows of
JSON), `predictions` and `scores` (what was said, and how good it was), `history` (the scored rows); `single_model`
and `keyed_model` (a model at work), `checkpoints`, `sequencer` (the order of requests), `answers` and `knowledge`
(what a stream has learnt from its log), `live_stream` (its threads), `streams` (all streams of a directory);
`growing` (a file that grows), `line_rows` (its lines as rows), `following` (what is asked for) and `follow` (a stream
that learns them); `web` (HTTP) and `page` (what the browser shows).
"""
