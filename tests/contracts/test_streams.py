"""Every learner's stream: any chunks, any interruption, and never a look ahead."""

import pytest

from streams import check_stream, make_stream
from subjects import SUBJECTS

FAST = {"gaussian", "classification"}


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in SUBJECTS]
)
def test_a_stream_keeps_what_it_must(name: str):
    subject = SUBJECTS[name]
    X, y, times = make_stream(subject.task, subject.outputs)
    check_stream(subject.learner, X, y, times if subject.timed else None)
