"""Reports and charts: pages and drawings of what a run has found, made from its scores and tables alone.

Who runs a stream, and where its results are kept, is not known here: `streamgp.app` makes the page of a directory,
`streamgp.estimators` that of an evaluation. What draws is imported when it is called.
"""
