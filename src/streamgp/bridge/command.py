"""`streamgp bridge`: rows from an MQTT broker to the live service, and predictions back."""

from typing import Annotated

import typer

from streamgp.app.console import sentences

EXAMPLES = """
Examples:

- `streamgp bridge mqtt://localhost/plant` — messages on plant/power/step are learnt by the stream power, predictions go to plant/power/predictions

- `mosquitto_pub -q 1 -t plant/power/step -m '{"id": "r7", "x": {"temp": 21.5}, "y": 412}'` — a row

- `streamgp bridge mqtts://meter@broker.example/plant https://10.0.0.1:8765` — with passwords in STREAMGP_MQTT_PASSWORD and STREAMGP_TOKEN
"""  # noqa: E501


def bridge(
    broker: Annotated[
        str,
        typer.Argument(
            help="mqtt://[USER@]HOST[:PORT]/PREFIX, or mqtts:// with TLS: a broker, and the topic below which each "
            "stream has STREAM/predict, STREAM/learn and STREAM/step."
        ),
    ],
    service: Annotated[str, typer.Argument(help="Address of the service.")] = "http://127.0.0.1:8765",
    client_id: Annotated[
        str | None,
        typer.Option(
            help="Name by which the broker keeps messages while the bridge is away; each bridge needs its own. "
            "Default: streamgp- and the prefix."
        ),
    ] = None,
    password: Annotated[
        str | None,
        typer.Option(
            help="Password of the user at the broker; better in the environment.", envvar="STREAMGP_MQTT_PASSWORD"
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(help="Token that the service asks for, with write on the streams.", envvar="STREAMGP_TOKEN"),
    ] = None,
) -> None:
    """Take rows from an MQTT broker to a live service, each at least once, and its predictions back."""
    with sentences():
        from streamgp.bridge.run import run_bridge

        run_bridge(broker, service, client_id, password, token)
