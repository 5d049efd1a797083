"""The kinds of noise, declared once: their names, what each remembers of errors, and what is said of it.

All else goes by the numbers of a `NoiseKind`: the levels in `streamgp.filters.noise` and in the kernel in C, and
joint draws. The help of the option and the caption in reports are made of `FORMS`. Nothing heavy is imported here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

CONSTANT = "constant"


@dataclass(frozen=True)
class NoiseKind:
    """A kind of noise, in numbers.

    Attributes
    ----------
    name
        By which `kind_of` finds it again.
    discount
        How much of what is known of the level is left after a row.
    gain
        What a row adds to it; 0: the level is that of the filter, and the noise is Gaussian.
    correlation
        How much of an error is left after one unit of time, in [0, 1).
    """

    name: str
    discount: float = 1.0
    gain: float = 0.0
    correlation: float = 0.0

    @property
    def adapts(self) -> bool:
        """Return whether the level is learnt."""
        return self.gain > 0.0

    @property
    def learnt(self) -> "NoiseKind":
        """Return the same kind with a level that is learnt, of constant noise a constant one."""
        return self if self.adapts else adaptive(1.0, self.correlation)


class Form(NamedTuple):
    """How kinds of noise are named.

    Attributes
    ----------
    words
        Those of the name, of which upper case stands for numbers.
    kind
        Makes the kind of these numbers.
    help
        In brackets behind the words in the help of the option.
    caption
        A word of the name, and what a report says of it.
    """

    words: str
    kind: Callable[..., NoiseKind]
    help: str
    caption: tuple[str, str]


def adaptive(discount: float, correlation: float = 0.0) -> NoiseKind:
    """Return noise whose level is learnt with a memory of 1 / (1 - discount) rows."""
    name = f"adaptive {discount!r}" + (f" ar {correlation!r}" if correlation else "")
    return NoiseKind(name, discount, 0.5, correlation)


FORMS = (
    Form(CONSTANT, lambda: NoiseKind(CONSTANT), "", (CONSTANT, "keeps to the noise of the warm-up.")),
    Form(
        "adaptive D",
        adaptive,
        "a memory of 1 / (1 - D) rows",
        (
            "adaptive",
            "follows the latest errors, the more closely the smaller its number: weight that moves there means that "
            "the noise grew or shrank, and the bands with it.",
        ),
    ),
    Form(
        "adaptive D ar RHO",
        adaptive,
        "a share RHO of the last error is expected again",
        (
            "ar",
            "means that errors are autocorrelated: the larger the number behind it, the more the last error predicts "
            "of the next.",
        ),
    ),
)
HELP = ", ".join(f"'{form.words}' ({form.help})" if form.help else form.words for form in FORMS)


def kind_of(name: str | float) -> NoiseKind:
    """Return the kind of noise of a name; a number alone is the D of ``adaptive D``.

    Raises
    ------
    ValueError
        If no form has such names.
    """
    words = str(name).split()
    if len(words) == 1 and words[0] not in [form.words for form in FORMS]:
        words = ["adaptive", *words]
    for form in FORMS:
        pattern = form.words.split()
        if len(words) == len(pattern):
            pairs = list(zip(words, pattern, strict=True))
            if all(word == part for word, part in pairs if not part.isupper()):
                try:
                    return form.kind(*(float(word) for word, part in pairs if part.isupper()))
                except ValueError:
                    break
    *most, last = (f"'{form.words}'" for form in FORMS)
    raise ValueError(f"noise: expected {', '.join(most)} or {last} with numbers, got {name!r}")


def captions(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return each word that needs one in some names of kinds, and its explanation."""
    used = {word for name in names for word in name.split()}
    return [form.caption for form in FORMS if form.caption[0] in used]
