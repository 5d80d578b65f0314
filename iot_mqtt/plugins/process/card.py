"""A version of a plugin, held against the codec kit by a process that has given up what a worker gives up.

::

    node ──{"path", "place", "config", "limits", "sandbox", "parent"}──▶ this
    node ◀──────────{"card": …} or {"refused": …}, the last line────────

It imports the SDK and the plugin and nothing else of the broker, may do nothing that a worker may not, and ends with
the node.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import iot_mqtt
from iot_mqtt.plugins.loading import load_alone
from iot_mqtt.plugins.place import Place
from iot_mqtt.plugins.process.sandbox.confining import confine, follow, homes_of, limit, readable_by
from iot_mqtt.plugins.settings import OFF, REQUIRED
from iot_mqtt.sdk.fitting import DoesNotFit
from iot_mqtt.sdk.kit import CHECKS, QUICK, ScoreCard, Unfit, check_one, subject_of

#: Needs a worker of its own, which this process may not start; and looks for what is open in /proc, which it may not.
_NOT_HERE: Final = frozenset({"isolated", "quiet"})


def main(order: dict[str, Any]) -> None:
    """Called by the line of code that ``plugins.examining`` starts Python with."""
    limit(order["limits"])
    follow(order["parent"])
    place = Place(**{**order["place"], "tops": tuple(order["place"]["tops"])})
    # What the codec prints is not the answer.
    answer, sys.stdout = sys.stdout, sys.stderr
    print(f"\n{json.dumps(_answer(order, place))}", file=answer, flush=True)


def _answer(order: Mapping[str, Any], place: Place) -> dict[str, Any]:
    if order["sandbox"] != OFF:
        packages = [str(Path(iot_mqtt.__file__).parent), *homes_of(place.tops)]
        missing = confine(readable_by(sys.path, packages, place.folder, besides=str(Path.cwd())), order["parent"])
        if missing and order["sandbox"] == REQUIRED:
            return {"refused": f"its sandbox is required, and this host can't enforce all of it: {missing}"}
    try:
        codec = load_alone(place, order["config"]).codec
        subject = subject_of(codec, order["config"], QUICK)
    except (DoesNotFit, Unfit) as error:
        return {"refused": str(error)}
    scores = tuple(check_one(name, subject, QUICK) for name in CHECKS if name not in _NOT_HERE)
    return {"card": ScoreCard(place.name, codec.version, scores).as_json()}
