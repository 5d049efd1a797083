"""The filters of one expert: dynamics, noise, guard against outliers, Kalman and Laplace filters.

`engine` runs many of them at once. How experts are weighed is in `streamgp.weights`.
"""
