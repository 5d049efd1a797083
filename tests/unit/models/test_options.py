"""The options of the models are declared once: what checks, asks and explains them follows the declaration."""

import inspect
from dataclasses import fields, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import typer
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

import streamgp
from benchmarks.pages.constructors import constructor, modules
from benchmarks.pages.options import pages
from streamgp import estimators
from streamgp.app.commands.model_options import parsed, with_model_options
from streamgp.bases import BASES as REGISTERED_BASES
from streamgp.bases.learners import remember
from streamgp.models import options
from streamgp.models.families import every_family
from streamgp.models.option_type import Option
from streamgp.models.options import OPTIONS, options_of
from streamgp.models.presets import PRESETS
from streamgp.models.registry import make_spec
from streamgp.models.spec import Spec
from streamgp.research.annex import MULTIKERNEL, SPARSE
from streamgp.table.targets import TASKS as TARGET_TASKS
from streamgp.weights.by_name import make_rule

ROOT = Path(__file__).parents[3]

# A value of each option that changes the model: by its kind, or its own.
OF_KIND: dict[str, Any] = {
    "flag": True,
    "switch": True,
    "whole": 7,
    "wholes": 7,
    "number": 0.25,
    "probability": 0.125,
    "range": (0.0, None),
}
OWN: dict[str, Any] = {
    "bases": "rbf",
    "learners": remember([Ridge()]),
    "dynamics": 0.25,
    "noise": "adaptive 0.9",
    "weights": "switching",
    "renew": False,
    "target_transform": "log",
}
MODELS = {"gaussian": "oebe", "generalised": "oebe", "multikernel": "raker", "sparse": "wgpr"}


def accepted(option: Option) -> Any:
    if option.name in OWN:
        return OWN[option.name]
    return option.choices[-1] if option.kind == "name" else OF_KIND[option.kind]


def signature(estimator: str) -> dict[str, Any]:
    parameters = inspect.signature(getattr(streamgp, estimator)).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


def changed(spec: Spec) -> set[str]:
    before = make_spec(spec.model, task=spec.task)
    return {name for name, value in vars(spec).items() if value != getattr(before, name)}


@pytest.mark.parametrize("estimator", options.ESTIMATORS)
def test_the_parameters_of_an_estimator_are_those_declared(estimator: str):
    declared = {option.name: option.default_for(estimator) for option in options_of(estimator)}
    assert signature(estimator) == declared, "run python -m benchmarks.pages.options"


@pytest.mark.parametrize("estimator", options.ESTIMATORS)
def test_a_docstring_explains_every_parameter(estimator: str):
    text = inspect.getdoc(getattr(streamgp, estimator))
    assert text is not None
    assert "{options}" not in text
    flat = " ".join(text.split())
    for option in options_of(estimator):
        assert f"\n{option.name} : {option.python_type}\n" in text
        assert " ".join(option.help.split()) in flat
        assert option.default_text(estimator) in flat


# The fields of a specification that an option sets, where it is none by its own name.
SETS = {"weights": {"rule"}, "paper": {"q_absolute", "warmup_posterior", "share", "rule"}}


@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in SETS])
def test_an_option_sets_a_field_of_the_specification(name: str):
    field = OPTIONS[name].spec_field
    assert field in {each.name for each in fields(Spec)}, f"give `Spec` a field {field}, or say in `sets` which it is"


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("family", every_family(), ids=lambda family: family.name)
def test_the_models_that_take_an_option_are_those_declared(family: Any, name: str):
    option = OPTIONS[name]
    for task in family.tasks:
        if family.name in option.families and task in option.tasks:
            model = "best" if name == "renew" else MODELS[family.name]
            spec = make_spec(model, task=task, **{name: accepted(option)})
            expected = SETS.get(name, {option.spec_field})
            assert changed(spec) == expected
        else:
            with pytest.raises(ValueError, match=f"^{name}: expected it with "):
                make_spec(MODELS[family.name], task=task, **{name: accepted(option)})


def test_an_option_that_is_not_declared_is_refused():
    with pytest.raises(TypeError, match="got 'speed'"):
        make_spec("oebe", speed=1)


@pytest.fixture
def further(monkeypatch: pytest.MonkeyPatch) -> Option:
    """An option that is added to the declaration, and to nothing else."""
    option = replace(OPTIONS["steps"], name="hops", families=options.FAMILIES, estimators=options.ESTIMATORS)
    option = replace(option, help="How far it hops.", low=3, sets="steps", command=True)
    monkeypatch.setitem(OPTIONS, "hops", option)
    return option


def test_a_further_option_reaches_the_command_and_the_check(further: Option):
    app, given = typer.Typer(), []

    @app.command()
    @with_model_options
    def command(options: dict[str, Any]) -> None:
        given.append(parsed(options))

    shown = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output.split())
    assert "--hops" in shown
    assert "How far it hops. At least 3. Default: 30." in shown
    assert CliRunner().invoke(app, ["--hops", "5"]).exit_code == 0
    assert given[0]["hops"] == 5
    assert make_spec("oebe", **given[0]).steps == 5
    with pytest.raises(ValueError, match="hops: expected a whole number >= 3, got 2"):
        make_spec("oebe", hops=2)


@pytest.mark.parametrize("estimator", options.ESTIMATORS)
def test_an_estimator_that_lacks_a_further_option_is_found(further: Option, estimator: str):
    missing = {option.name for option in options_of(estimator)} - signature(estimator).keys()
    assert missing == {"hops"}
    for path, text in modules().items():
        assert path.read_text(encoding="utf-8") != text, path.name


@pytest.mark.parametrize("name", options.ESTIMATORS)
def test_a_further_option_reaches_the_constructor(further: Option, name: str):
    estimator = getattr(streamgp, name)
    before = inspect.getsource(estimator.__init__)
    added = set(constructor(estimator).splitlines()) - set(dedent(before).splitlines())
    derived = estimator.__mro__[1].__name__ in options.ESTIMATORS  # the constructor above sets it
    sets = "        hops=hops," if derived else "    self.hops = hops"
    assert added == {"    hops: int | None = None,", sets}


def test_a_parameter_of_an_estimator_is_checked(further: Option):
    class Hopping(estimators.StreamingGPRegressor):
        def __init__(self, model: str = "oebe", *, hops: int | None = None) -> None:
            super().__init__(model)
            self.hops = hops

    with pytest.raises(ValueError, match="hops: expected a whole number >= 3, got 2"):
        Hopping(hops=2).partial_fit([[1.0]], [1.0])


# Names that are declared where nothing heavy is imported


def test_the_declared_names_are_those_that_there_are():
    assert tuple(REGISTERED_BASES) == options.BASES
    assert tuple(family.name for family in every_family()) == options.FAMILIES
    assert ("auto", *options.TASKS) == TARGET_TASKS
    assert {spec.learner for spec in PRESETS.values()} == {None, *MULTIKERNEL.models, *SPARSE.models}
    for name in PRESETS:
        assert name in options.MODEL.help
    for name in options.WEIGHT_RULES:
        make_rule(name, [0, 0, 1], delta=0.1, share_rate=0.1, switch=0.1)
    with pytest.raises(ValueError, match="matrix Q"):
        make_rule("another", [0, 0, 1], delta=0.1, share_rate=0.1, switch=0.1)


def test_no_text_of_an_option_is_written_twice():
    written = [
        path for folder in ("src", "docs") for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")
    ]
    homes = {"options.py", "target_options.py", "annex.py", "options.md", "command.md"}  # the pages are generated
    for option in (*OPTIONS.values(), options.MISSING_VALUES):
        places = [path.name for path in written if option.help[:40] in path.read_text(encoding="utf-8")]
        assert set(places) <= homes, option.name


def test_what_is_generated_is_that_of_the_declaration():
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"run python -m benchmarks.pages.options: {path} is older"


def test_several_terms_may_come_as_text_with_commas():
    spec = make_spec("oebe", dynamics="static, walk 0.001", noise="constant,adaptive 0.9")
    assert (spec.dynamics, spec.noise) == (("static", "walk 0.001"), ("constant", "adaptive 0.9"))
