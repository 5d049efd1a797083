"""`streamgp reproduce`: the tables and figures of two papers, run again and set beside what the papers print.

Lu, Karanikolas and Giannakis (2022), Incremental ensembles of Gaussian processes; Waxman and Djuric (2024), Dynamic
online ensembles of basis expansions. `catalogue` says what there is; `runner` does the runs and keeps them in a JSON
file; `tables` and `charts` show that file.
"""
