"""Try an installation without extras: a run works, with its report; what an extra adds says how to get it.

Run it with the interpreter of that installation; it needs nothing of the repository.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import streamgp

EXTRAS = {  # what needs one, and the words that its message must have
    "gpu": "from streamgp import StreamingGPRegressor as R; R('raker', warmup=50).fit(X, y)",
    "latent": "from streamgp import StreamingGPLVM; StreamingGPLVM(warmup=50).fit(np.tile(X, 3))",
    "river": "from streamgp.adapters.river import RiverRegressor",
    "statsforecast": "from streamgp.adapters.statsforecast import StatsForecastModel",
    "sktime": "from streamgp.adapters.sktime import SktimeForecaster",
    "serve": "from streamgp.client import Client",
    "ray": "from streamgp import StreamingGPFleet as F; F(id_col='k', target_col='y', engine='ray', workers=2)",
}
DATA = "import numpy as np; X = np.random.default_rng(0).normal(size=(120, 2)); y = X.sum(1)\n"


def main() -> None:
    """Run a file through the command, then ask for every extra."""
    with tempfile.TemporaryDirectory() as folder:
        X = np.random.default_rng(0).normal(size=(300, 2))
        table = Path(folder) / "data.csv"
        np.savetxt(table, np.column_stack([X, X.sum(1)]), delimiter=",", header="a,b,y", comments="")
        words = ["run", str(table), "--target", "y", "--model", "linear", "--warmup", "50", "--out", f"{folder}/out"]
        run = subprocess.run([sys.executable, "-m", "streamgp.app.cli", *words], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert (Path(folder) / "out" / "predictions.parquet").exists()
        assert (Path(folder) / "out" / "report.html").exists()
    for extra, code in EXTRAS.items():
        tried = subprocess.run([sys.executable, "-c", DATA + code], capture_output=True, text=True)
        last = tried.stderr.strip().rsplit("\n", 1)[-1]
        assert tried.returncode and f"streamgp[{extra}]" in last, f"{extra}: {last}"
        print(f"{extra}: {last}")
    print(f"streamgp {streamgp.__version__} works without extras")


if __name__ == "__main__":
    main()
