"""`streamgp reproduce`: the tables and figures of the papers, run again and set beside the printed figures.

`catalogue` lists them by name: those of Lu, Karanikolas and Giannakis (2022), Incremental ensembles of Gaussian
processes (`iegp`, `classification`, `gplvm`); of Waxman and Djuric (2024), Dynamic online ensembles of basis
expansions (`doebe`, `classification`); of Ghari and Shen (2021), kernels chosen by a graph (`sfg`); of Kepler,
Koppel, Bedi and Stilwell (2021), Gaussian processes that split (`wgpr`); of Mauduit, Berthier and Simonetto,
time-varying optimisation (`sparq`). `runner` does the trials and keeps them in a JSON file; `tables` and `charts`
show that file.
"""
