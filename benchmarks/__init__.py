"""Benchmarks: programs that measure streamgp, their results, and the pages that show them.

Each runs by one command from the repository's root, as ``python -m benchmarks.speed.engine``; ``--help`` says what it
takes. Its docstring says what it measures and where that goes.

common
    What several of them use: data sets, baselines, timing, the machine's description, replays, pages.
speed
    How long things take, and how much memory.
accuracy
    Scores, calibration and regret on clean streams.
robustness
    Campaigns: streams that are corrupted, runs that are killed, generated input, streams of 10^7 rows.
pages
    The tables and pictures of the documentation, from the results alone wherever they are enough.
results
    What was found, as JSON: measured by the programs, read by the pages.

Programs import from ``common``; pages import from all; nothing imports from pages.
"""
