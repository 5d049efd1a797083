"""How the belief of one expert follows its rows: dynamics, noise, guard, Kalman and Laplace filters.

`engine` runs many of them at once. How experts are weighed is in `streamgp.weights`.
"""
