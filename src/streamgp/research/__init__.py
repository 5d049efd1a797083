"""Methods of the papers beside the ensembles: many kernels by gradient steps, sparse and splitting GPs, regret.

`multikernel` and `sparse` are families of models, `regret` measures how far a run was from the best in hindsight, and
`splitting_regressor` is the estimator of models that split.
"""
