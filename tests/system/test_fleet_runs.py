"""`streamgp run --key`: what the fleet in Python predicts, in one go or resumed."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from fleet_streams import frame
from streamgp import StreamingGPFleet
from streamgp.app.cli import app
from streamgp.fleet import fleet_alarms
from streamgp.fleet.run_alarms import alarms_of_run

pytestmark = pytest.mark.slow

ROWS = frame(keys=5, rows=60, glitches=False).rename({"unique_id": "shop", "ds": "day"})
ARGS = ["--target", "y", "--key", "shop", "--time", "day", "--warmup", "100", "--out", "out"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    ROWS.write_csv("rows.csv")


def run(*words: str, fails: bool = False) -> str:
    result = CliRunner().invoke(app, ["run", *words])
    assert (result.exit_code != 0) == fails, result.output
    return result.output


def in_python() -> tuple[StreamingGPFleet, pl.DataFrame]:
    model = StreamingGPFleet("shop", "day", "y", warmup=100)
    return model, model.evaluate(ROWS).frame


def assert_whole(predictions: pl.DataFrame) -> None:
    expected = in_python()[1]
    assert predictions["row"].to_list() == list(range(len(ROWS)))
    assert predictions["key"].to_list() == ROWS["shop"].to_list()
    for name in ("y", "mean", "std", "q05", "q50", "q95", "log_density"):
        np.testing.assert_allclose(predictions[name], expected[name], rtol=1e-9, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(predictions["time"], ROWS["day"])


def test_the_command_is_the_fleet_in_python():
    said = run("rows.csv", *ARGS, "--json", "metrics.json")
    assert "300 rows of 5 keys" in said
    assert_whole(pl.read_parquet("out/predictions.parquet"))
    model, _ = in_python()
    found = json.loads(Path("metrics.json").read_text())
    assert found == json.loads(Path("out/metrics.json").read_text())
    assert (found["rows"], found["features"], found["skipped_rows"]) == (300, ["a", "b"], 0)
    scores = model.scores()
    assert [each["key"] for each in found["keys"]] == model.keys_
    np.testing.assert_allclose([each["pll"] for each in found["keys"]], scores["pll"], rtol=1e-9)
    weights = scores["scored_rows"].to_numpy()
    np.testing.assert_allclose(found["pll"], np.average(scores["pll"], weights=weights), rtol=1e-9)
    np.testing.assert_allclose(found["coverage"]["90"], np.average(scores["coverage"], weights=weights), atol=0.005)
    assert f"On {found['scored_rows']} rows of 5 keys" in Path("out/report.html").read_text()
    again = StreamingGPFleet.load("out/checkpoint")
    assert again.scores().equals(scores)


def test_keys_that_differ_in_the_last_digit_are_two():
    keys = {"key 0": 1234567890123456.0, "key 1": 1234567890123457.0, "key 2": 0.1, "key 3": np.nextafter(0.1, 1.0)}
    numbers = ROWS["shop"].replace_strict(keys, default=7.0, return_dtype=pl.Float64)
    ROWS.with_columns(shop=numbers).write_parquet("rows.parquet")
    run("rows.parquet", *ARGS)
    found = pl.read_parquet("out/predictions.parquet")["key"].unique(maintain_order=True)
    expected = {"1234567890123456", "1234567890123457", "0.1", "0.10000000000000002", "7"}
    assert set(found.to_list()) == expected


def test_groups_and_sleeping_keys_are_those_of_python():
    grouped = ROWS.with_columns(kind=pl.col("shop").str.slice(4).cast(int) % 2)
    grouped.write_csv("grouped.csv")
    model = StreamingGPFleet("shop", "day", "y", warmup=100, group_col="kind")
    expected = model.evaluate(grouped.with_columns(pl.col("kind").cast(pl.String))).frame
    options = [*ARGS, "--group", "kind", "--max-active", "2", "--chunk", "30"]
    run("grouped.csv", *options, "--max-rows", "160")
    assert "has group 'kind', but now None" in run("grouped.csv", *ARGS, "--resume", fails=True)
    Path("out/streamgp-asleep-left").mkdir()  # by a run that was killed
    run("grouped.csv", *options, "--resume")
    found = pl.read_parquet("out/predictions.parquet")
    np.testing.assert_allclose(found["log_density"], expected["log_density"], rtol=1e-9)
    assert json.loads(Path("out/metrics.json").read_text())["features"] == ["a", "b"]
    assert list(Path("out/checkpoint").glob("asleep-*")) and not list(Path("out").glob("streamgp-asleep-*"))
    assert "<th>group" in Path("out/report.html").read_text()


def test_the_demo_of_a_fleet():
    result = CliRunner().invoke(app, ["demo", "--fleet", "--out", "demo"])
    assert result.exit_code == 0, result.output
    assert "Gapminder" in result.output and "CC BY 2.0" in result.output
    found = json.loads(Path("demo/metrics.json").read_text())
    keys = found["keys"]
    assert len(keys) > 190 and len({key["group"] for key in keys}) > 5
    better = [key["nmse"] < key["nmse_persistence"] for key in keys if key["nmse"] is not None]
    assert np.mean(better) > 0.8
    assert "On 7,101 rows of 204 keys" in Path("demo/report.html").read_text()
    # The command that it names does the same.
    words = found["command"].split()
    assert words[:3] == ["streamgp", "run", "demo/fleet-demo.csv"]


@pytest.mark.parametrize("chunk", ["7", "128"])
def test_a_resumed_run_is_one_that_was_never_stopped(chunk: str):
    run("rows.csv", *ARGS, "--max-rows", "130", "--chunk", chunk)
    assert len(pl.read_parquet("out/predictions.parquet")) == 130
    run("rows.csv", *ARGS, "--resume", "--chunk", "50")
    assert_whole(pl.read_parquet("out/predictions.parquet"))
    resumed = json.loads(Path("out/metrics.json").read_text())
    run("rows.csv", *ARGS[:-1], "whole")
    whole = json.loads(Path("whole/metrics.json").read_text())
    for name in ("rows", "scored_rows", "warmup"):
        assert resumed[name] == whole[name]
    for name in ("rmse", "pll", "crps", "nmse", "mae"):
        np.testing.assert_allclose(resumed[name], whole[name], rtol=1e-9)


def test_a_run_goes_on_with_its_own_file_and_options_alone():
    run("rows.csv", *ARGS, "--max-rows", "130")
    other = ROWS.with_columns(a=pl.when(pl.int_range(pl.len()) == 77).then(9.0).otherwise("a"))
    other.write_csv("other.csv")
    assert "is not the file of the run" in run("other.csv", *ARGS, "--resume", fails=True)
    ROWS[:50].write_csv("short.csv")
    assert "fewer rows than the 130" in run("short.csv", *ARGS, "--resume", fails=True)
    assert "has seed 0, but now 1" in run("rows.csv", *ARGS, "--resume", "--seed", "1", fails=True)
    assert "already holds a run" in run("rows.csv", *ARGS, fails=True)
    run("rows.csv", *ARGS, "--resume")
    assert_whole(pl.read_parquet("out/predictions.parquet"))


def test_results_without_a_checkpoint_are_not_replaced_by_a_resumed_run():
    run("rows.csv", *ARGS)
    before = Path("out/predictions.parquet").read_bytes()
    shutil.rmtree("out/checkpoint")
    said = run("rows.csv", *ARGS, "--resume", fails=True)
    assert "holds results, but no checkpoint to go on from" in said
    assert Path("out/predictions.parquet").read_bytes() == before


def test_dates_whole_keys_text_and_bad_rows(tmp_path: Path):
    dated = ROWS.with_columns(
        day=pl.from_epoch((pl.col("day") * 86_400).cast(pl.Int64)).dt.to_string("iso"),
        shop=pl.col("shop").str.strip_prefix("key ").cast(pl.Int64),
        colour=pl.when(pl.col("a") > 0.0).then(pl.lit("red")).otherwise(pl.lit("blue")),
    )
    bad = dated[10:11].with_columns(y=pl.lit(1e300))
    rows = pl.concat([dated[:200], bad, dated[200:]])  # a second time for its key: skipped
    rows.write_parquet("rows.parquet")
    rows.write_csv("rows.csv")
    found = []
    for name in ("rows.parquet", "rows.csv"):
        run(name, *ARGS, "--overwrite")
        found.append(pl.read_parquet("out/predictions.parquet"))
        metrics = json.loads(Path("out/metrics.json").read_text())
        assert metrics["skipped_rows"] == 1 and "colour" in metrics["features"]
        assert found[-1]["mean"].is_nan().to_list().index(True) == 200
        assert found[-1]["key"].to_list() == [str(k) for k in rows["shop"]]
    np.testing.assert_allclose(found[0]["mean"], found[1]["mean"], rtol=1e-9)
    said = run("rows.csv", *ARGS, "--overwrite", "--missing", "raise", "--chunk", "32", fails=True)
    fault = "data row 201 (line 202): target column 'y': expected a finite number, got '1e+300'"
    assert fault in " ".join(said.split())
    assert len(pl.read_parquet("out/predictions.parquet")) == 192


def test_a_time_that_is_none_is_named_with_its_line(tmp_path: Path):
    dates = [f"2024-01-{1 + i:02d}" if i != 4 else "10000-01-05" for i in range(9)]
    pl.DataFrame({"day": dates, "shop": "a", "y": np.arange(9.0)}).write_csv("dated.csv")
    words = ("dated.csv", "--target", "y", "--key", "shop", "--time", "day")
    fault = "data row 5 (line 6): time column 'day': expected a date of the years 1 to 9999"
    assert f"skipped 1 bad row: {fault}" in " ".join(run(*words).split())
    assert fault in " ".join(run(*words, "--missing", "raise", fails=True).split())


def test_keys_that_have_changed_are_told_resumed_or_not(tmp_path: Path):
    """Two of thirty keys get stuck; what `fleet_alarms` says in Python is what the run says."""
    rng = np.random.default_rng(0)
    y = rng.normal(10.0, 3.0, 30) + np.sin(np.arange(260) / 3.0)[:, None] + 0.3 * rng.normal(size=(260, 30))
    y[200:, [3, 7]] = y[199, [3, 7]]
    dates = np.repeat(np.datetime64("2023-01-01") + np.arange(260), 30).astype(str)
    table = pl.DataFrame({"shop": [f"s{k}" for k in range(30)] * 260, "day": dates, "y": y.ravel()})
    table.write_csv("stuck.csv")
    words = ["stuck.csv", *ARGS[:-1], "stuck", "--alarms"]
    run(*words, "--max-rows", "5000")
    assert json.loads(Path("stuck/metrics.json").read_text())["alarms"] == []
    assert "has alarms True, but now False" in run(*words[:-1], "--resume", fails=True)
    said = run(*words, "--resume")
    assert "2 alarms of 2 keys:\n  s3, stuck: since row 200 the target has stood still" in said
    found = json.loads(Path("stuck/metrics.json").read_text())["alarms"]
    model = StreamingGPFleet("shop", "day", "y", warmup=100)
    expected = fleet_alarms(model.evaluate(table.with_columns(pl.col("day").str.to_datetime())))
    assert len(expected) == 2
    for mine, alarm in zip(found, expected.iter_rows(named=True), strict=True):
        assert mine["key"] == alarm["shop"] and mine["time"] == alarm["day"].isoformat()
        assert [mine[name] for name in ("kind", "row", "since", "sentence")] == [
            alarm[name] for name in ("kind", "row", "since", "sentence")
        ]
        np.testing.assert_allclose(mine["evidence"], alarm["evidence"], rtol=1e-6)
    # Rows of the warm-up only teach what is usual.
    assert alarms_of_run(pl.read_parquet("stuck/predictions.parquet"), len(table), "y") == []
    page = Path("stuck/report.html").read_text()
    assert "Which keys have changed" in page and "<td>s7<td>2023-07-27T00:00:00<td>stuck<td>since row 200" in page
    run(*words[:-1], "--overwrite")
    assert json.loads(Path("stuck/metrics.json").read_text())["alarms"] is None
    assert "Which keys have changed" not in Path("stuck/report.html").read_text()
    assert "needs --out DIR" in run("stuck.csv", *ARGS[:-2], "--alarms", fails=True)


def test_the_calendar_of_a_run_is_that_of_python():
    dated = ROWS.with_columns(day=pl.from_epoch((pl.col("day") * 86_400).cast(pl.Int64)))
    dated.write_csv("dated.csv")
    model = StreamingGPFleet("shop", "day", "y", warmup=100, calendar=["week", "month"], holidays="DE")
    expected = model.evaluate(dated).frame
    run("dated.csv", *ARGS, "--calendar", "week,month", "--holidays", "DE")
    found = pl.read_parquet("out/predictions.parquet")
    np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-9)
    assert "has holidays 'DE', but now None" in run(
        "dated.csv", *ARGS, "--calendar", "week,month", "--resume", fails=True
    )
    said = run("rows.csv", *ARGS[:-1], "numbers", "--holidays", "DE", fails=True)
    assert "calendar, holidays: expected dates" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--conformal", "0.9"], "the bands of a fleet are those of its keys' models"),
        (["--groups", "a"], "--group names the groups of keys"),
        (["--horizon", "2"], "a fleet forecasts each of the next rows, 1..24 for so many"),
        (["--delay", "2"], "a fleet learns each target with its row"),
        (["--arrives", "a"], "a fleet learns each target with its row"),
        (["--baselines", "lightgbm"], "beside the last target and the mean of all before"),
        (["--task", "count"], "a fleet has one model for numbers"),
        (["--model", "fast"], "a fleet has one model for numbers"),
    ],
)
def test_what_does_not_go_with_keys_is_refused(words: list[str], why: str):
    said = " ".join(run("rows.csv", *ARGS, *words, fails=True).split())
    assert (
        f"{' '.join(words) if words[0] == '--horizon' else words[0]} does not go with --key: " in said
        and why in said
        and said.endswith("; leave it out")
    )


def test_forecasts_of_each_key_are_those_of_python_resumed_or_not():
    model = StreamingGPFleet("shop", "day", "y", warmup=100)
    expected = model.evaluate(ROWS, steps_ahead=4)
    options = [*ARGS, "--horizon", "1..4"]
    said = run("rows.csv", *options, "--max-rows", "170", "--chunk", "13")
    assert "has steps_ahead 4, but now None" in run("rows.csv", *ARGS, "--resume", fails=True)
    said = run("rows.csv", *options, "--resume", "--chunk", "50")
    assert "Forecasts of the next 4 rows, by squared error: " in said
    predictions, found = (pl.read_parquet(f"out/{name}.parquet") for name in ("predictions", "forecasts"))
    made = expected.frame.with_row_index("row").filter(pl.col("step") > 0)
    assert found.columns == ["key", "origin", "step", "row", "time", "y", "mean", "std", "q05", "q50", "q95"]
    assert found["row"].to_list() == made["row"].to_list() and len(found) > 100
    assert found["key"].to_list() == made["shop"].to_list()
    for name in ("mean", "std", "q05", "q50", "q95"):
        np.testing.assert_allclose(found[name], made[f"ahead_{name}"], rtol=1e-9, err_msg=name)
    # The origin is the row of the key before the first step.
    mine = predictions.filter(pl.col("key") == found["key"][0])
    origin = mine.filter(pl.col("row").shift(-1) == found.filter(key=found["key"][0], step=1)["row"][0])["row"][0]
    assert found.filter(key=found["key"][0])["origin"][0] == origin
    metrics = json.loads(Path("out/metrics.json").read_text())["steps_ahead"]
    for ours, theirs in zip(metrics["by_step"], expected.metrics["steps_ahead"]["by_step"], strict=True):
        for name in ("rmse", "mae", "mase", "crps", "scaled_rmse"):
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-9, err_msg=name)
        assert ours["judgement"]["verdict"] == theirs["judgement"]["verdict"]
    page = Path("out/report.html").read_text()
    assert "all of its next 4 rows" in page and "The last forecast of some keys" in page
    assert page.count('class="axis">key ') >= 5
    assert "--horizon: expected how many rows ahead" in run("rows.csv", *ARGS, "--horizon", "1..x", fails=True)


def test_a_transform_of_a_run_is_that_of_python_and_names_targets_that_cannot_be():
    positive = ROWS.with_columns(y=pl.col("y").exp())
    spoilt = positive.with_columns(y=pl.when(pl.int_range(pl.len()) == 200).then(-3.0).otherwise("y"))
    spoilt.write_csv("positive.csv")
    spoilt.write_parquet("positive.parquet")
    model = StreamingGPFleet("shop", "day", "y", warmup=100, target_transform="log", missing="skip")
    expected = model.evaluate(spoilt).frame
    options = [*ARGS, "--target-transform", "log"]
    run("positive.csv", *options, "--max-rows", "150")
    said = " ".join(run("positive.csv", *options, "--resume").split())
    assert "target column 'y': expected a target in (0, inf) for target_transform='log', got -3" in said
    found = pl.read_parquet("out/predictions.parquet")
    for name in ("mean", "std", "q05", "log_density"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, err_msg=name)
    run("positive.parquet", *ARGS[:-1], "parquet", "--target-transform", "log")
    of_parquet = pl.read_parquet("parquet/predictions.parquet")["mean"]
    np.testing.assert_allclose(of_parquet, found["mean"], rtol=1e-9)
    assert "has target_transform 'log', but now None" in run("positive.csv", *ARGS, "--resume", fails=True)
    said = " ".join(
        run("positive.csv", *ARGS[:-1], "raised", "--bounds", "0,", "--missing", "raise", fails=True).split()
    )
    assert "data row 201 (line 202): target column 'y': expected a target in [0, inf), got -3" in " ".join(
        said.split()
    )
    assert "bounds: expected the lower one below" in run(
        "positive.csv", *ARGS[:-1], "none", "--bounds", "1,0", fails=True
    )


def test_a_key_is_a_column():
    assert "no column" in run("rows.csv", "--target", "y", "--key", "none", fails=True)


@pytest.mark.parametrize("target", ["up", "true"])
def test_a_target_of_words_is_refused_before_any_work(tmp_path: Path, target: str):
    """Where no key is given such targets are classes; a run of which no target can be read would say nothing."""
    path = tmp_path / "labels.csv"
    path.write_text("id,a,y\n" + f"1,0.5,\n1,0.5,{target}\n2,1.5,\n" * 20)
    said = run(str(path), "--target", "y", "--key", "id", "--out", "labels", fails=True)
    assert f"data row 2 (line 3), target column 'y': expected numbers, got '{target}'" in " ".join(said.split())
    assert "leave out --key for labels" in " ".join(said.split())
    assert not Path("labels").exists()
    path.write_text("id,a,y\n" + "1,0.5,\n" * 20)  # targets may come later
    run(str(path), "--target", "y", "--key", "id")


def test_standard_input_and_no_output():
    text = ROWS.drop("day").write_csv()
    result = CliRunner().invoke(
        app, ["run", "-", "--target", "y", "--key", "shop", "--json", "-", "--warmup", "100"], input=text
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["scored_rows"] > 100
