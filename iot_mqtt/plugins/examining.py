"""The codec kit's report on a version that a node keeps: asked of a process of its own, which has no rights."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from iot_mqtt.plugins.info import CheckReport, CheckScore, PluginError
from iot_mqtt.plugins.place import Place
from iot_mqtt.plugins.process.bridge import CommandFailed, Reactor, run_command
from iot_mqtt.plugins.process.launch import confined, environment
from iot_mqtt.plugins.settings import PluginSettings

#: Seconds for all of it.
WITHIN: Final = 240.0
#: So many times the memory of a worker: the kit keeps what it compares.
_MEMORY: Final = 2
_BEGIN: Final = (
    "import json, os, sys; order = json.loads(sys.argv[1]); os.nice(order['limits']['nice']); "
    "sys.path[:] = order['path']; from iot_mqtt.plugins.process.card import main; main(order)"
)
#: Characters of a text, and lines of a card.
_TAIL: Final = 600
_LINES: Final = 64


async def examine(reactor: Reactor, place: Place, settings: PluginSettings, folder: Path) -> CheckReport:
    """Hold a version against the kit. Raises ``PluginError`` when it cannot be loaded, or does not come to an end."""
    limits = confined(settings.limits)
    order = {
        "path": [path or str(Path.cwd()) for path in sys.path],
        "place": place.as_json(),
        "config": settings.config,
        "limits": {**limits, "memory": int(limits["memory"]) * _MEMORY},
        "sandbox": settings.sandbox,
        "parent": os.getpid(),
    }
    what = f"{place.name} {place.label}"
    arguments = [sys.executable, "-I", "-c", _BEGIN, json.dumps(order)]
    try:
        text = await run_command(reactor, arguments, folder, WITHIN, environment())
        told = json.loads(text.splitlines()[-1])
        if "refused" in told:
            raise PluginError("refused", f"{what}: {str(told['refused'])[:_TAIL]}")
        return _report(place, told["card"])
    except CommandFailed as error:
        raise PluginError("refused", f"{what} could not be checked: {str(error)[-_TAIL:]}") from error
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise PluginError("refused", f"{what}: its check ended without a report") from error


def _report(place: Place, card: Mapping[str, Any]) -> CheckReport:
    """The card is words of a process with a vendor's code in it: each is taken as what it should be, and cut."""
    scores = [
        CheckScore(
            name=str(one["name"])[:_LINES],
            verdict=one["verdict"] if one["verdict"] in ("pass", "fail", "none") else "fail",
            figure=str(one["figure"])[:_TAIL],
            complaints=[str(text)[:_TAIL] for text in one["complaints"][:5]],
            seconds=float(one["seconds"]),
        )
        for one in card["checks"][:_LINES]
    ]
    ok = bool(scores) and all(one.verdict != "fail" for one in scores)
    return CheckReport(place.name, place.label, str(card["version"])[:_LINES], ok, scores)
