"""The counts of rows that all scores of a stream have."""

from streamgp.evaluation.running_sums import ScoresInSums


def test_rows_without_a_target_are_counted_but_not_scored() -> None:
    scores = ScoresInSums(warmup=3)
    scores.rows += 5
    scores.pass_over(4)
    assert scores.counts() == {"rows": 9, "warmup": 3, "scored_rows": 2, "unlabelled_rows": 4}
