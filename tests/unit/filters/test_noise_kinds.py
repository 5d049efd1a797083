"""The kinds of noise as they are declared: names, what is told of them, and a kind that nothing else knows."""

import numpy as np
import pytest

from kernel_forms import in_both_forms
from streamgp.filters import noise, noise_kinds
from streamgp.filters.noise import parse
from streamgp.filters.noise_kernel import is_compiled
from streamgp.filters.noise_kinds import FORMS, Form, NoiseKind, captions, kind_of
from streamgp.models.options import OPTIONS

QUICK = Form(
    "quick D", lambda d: NoiseKind(f"quick {d!r}", d, 1.0), "a row counts twice", ("quick", "learns at once.")
)
form = in_both_forms(noise, "is_compiled", lambda: False, is_compiled())


def test_kinds_are_found_by_their_names() -> None:
    assert kind_of("constant") == NoiseKind("constant", 1.0, 0.0, 0.0)
    assert kind_of("adaptive 0.9") == kind_of(0.9) == kind_of("0.90") == NoiseKind("adaptive 0.9", 0.9, 0.5, 0.0)
    assert kind_of("adaptive 0.9 ar 0.5") == NoiseKind("adaptive 0.9 ar 0.5", 0.9, 0.5, 0.5)
    assert kind_of("adaptive 0.9 ar 0") == kind_of(0.9)


@pytest.mark.parametrize(
    "name", ["", "adaptive", "quick 0.9", "adaptive 0.9 ar", "constant 0.9", "adaptive 0.9 by 0.5"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(
        ValueError, match="expected 'constant', 'adaptive D' or 'adaptive D ar RHO' with numbers, got"
    ):
        kind_of(name)


def test_the_help_names_every_form_and_reports_explain_what_they_show() -> None:
    assert all(form.words in OPTIONS["noise"].help and form.help in OPTIONS["noise"].help for form in FORMS)
    assert [word for word, _ in captions(["constant", "adaptive 0.8 ar 0.9"])] == ["constant", "adaptive", "ar"]
    assert [word for word, _ in captions(["adaptive 1.0", "adaptive 0.9"])] == ["adaptive"]


@pytest.mark.usefixtures("form")
def test_a_further_kind_needs_no_more_than_its_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_kinds, "FORMS", (*FORMS, QUICK))
    kinds, rng = parse(("constant", "quick 0.9")), np.random.default_rng(0)
    error, var = rng.normal(size=(50, 3, 2)), rng.uniform(0.5, 2.0, (50, 3, 2))
    state = kinds.init(3, 2)
    after, _ = kinds.update_rows(state, error, var, np.ones(50), np.ones(50, bool))
    shape, rate = state.shape[1], state.rate[:, 1]
    for square in np.square(error) / var:
        shape, rate = 0.9 * shape + 1.0, 0.9 * rate + square
    np.testing.assert_allclose(after.shape, [state.shape[0], shape], rtol=1e-12)
    np.testing.assert_allclose(after.rate[:, 1], rate, rtol=1e-12)
    np.testing.assert_allclose(after.rate[:, 0], state.rate[:, 0], rtol=1e-12)
    drawn = kinds.draw(after, 1, np.repeat([0, 1], 20_000), np.random.default_rng(1))
    assert (drawn[:20_000] == 1.0).all()
    precision = 1.0 / drawn[20_000:]  # gamma, of mean shape / rate and variance shape / rate^2
    off = precision.mean(0) - shape / rate[1]
    assert (np.abs(off) < 4.0 * np.sqrt(shape / 20_000) / rate[1]).all()
    assert captions(kinds.names)[-1] == QUICK.caption
