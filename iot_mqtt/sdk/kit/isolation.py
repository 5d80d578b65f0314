"""The check that a codec says the same in a worker process, which is where a broker runs it by default.

The worker is the broker's, which the SDK does not know: a child process is asked, and tells what the vectors came to.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from iot_mqtt.sdk.event_json import difference
from iot_mqtt.sdk.kit.card import Outcome
from iot_mqtt.sdk.kit.conversation import Conversation, Subject
from iot_mqtt.sdk.kit.options import Options
from iot_mqtt.sdk.kit.rules import Fault

_TRIAL: Final = "iot_mqtt.plugins.process.trial"
_TAIL: Final = 600
#: Seconds that the worker gets beside those of CPU, which are all that counts elsewhere: it starts a Python, and what
#: else the machine has to do is not the codec's fault.
_BESIDE: Final = 30.0

Story = dict[str, Any]


def stories(subject: Subject) -> dict[str, Story]:
    """What each vector comes to, on a connection of its own: events, the end, and bytes or a refusal in words."""
    told: dict[str, Story] = {}
    for vector in subject.vectors.vectors.values():
        conversation = Conversation(subject)
        try:
            for earlier in subject.vectors.before(vector):
                conversation.play(earlier)
            result = conversation.play(vector)
        except Fault as fault:
            told[vector.name] = {"fault": str(fault)}
            continue
        shown = {"bytes": result.hex(" ")} if isinstance(result, bytes) else {"cannot": result}
        told[vector.name] = {"events": conversation.story(), **shown}
    return told


def isolated(subject: Subject, options: Options) -> Outcome:
    """Golden vectors give the same in a worker process with its limits as they give here."""
    codec = subject.codec
    if "<locals>" in codec.__qualname__ or codec.__module__ == "__main__":
        return Outcome.not_for("a worker process cannot import a class that is made in a function or a script")
    if not subject.vectors.vectors:
        return Outcome.not_for("no golden vectors")
    outcome = Outcome()
    found = _in_worker(subject, options)
    same = 0
    for name, here in stories(subject).items():
        there = found.get(name, {})
        if "fault" in there and "fault" not in here:
            outcome.complain(f"{name}, in a worker process: {there['fault']}")
        elif text := difference(here, there, ""):
            outcome.complain(f"{name}, in a worker process: {text}")
        else:
            same += 1
    outcome.figure = f"{same} of {len(found)} vectors say the same in a worker process"
    outcome.figures.update(vectors=len(found), same=same)
    return outcome


def _in_worker(subject: Subject, options: Options) -> dict[str, Story]:
    codec = subject.codec
    request = {
        "target": f"{codec.__module__}:{codec.__qualname__}",
        "config": dict(subject.settings),
        "vectors": None if options.vectors is None else str(options.vectors),
        "path": [path or str(Path.cwd()) for path in sys.path],
    }
    try:
        done = subprocess.run(  # noqa: S603 - this Python, with our own module
            [sys.executable, "-m", _TRIAL],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=options.seconds + options.patience + _BESIDE,
            check=False,
        )
    except TypeError as error:  # YAML knows more than JSON: dates, for one
        raise Fault(f"its configuration cannot be given to a worker: {error}") from error
    except subprocess.TimeoutExpired:
        raise Fault("the worker process did not end in time") from None
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        raise Fault(f"no worker process could be tried: {(done.stderr or done.stdout)[-_TAIL:]}") from None
    if "fault" in answer:
        raise Fault(f"in a worker process: {answer['fault']}")
    found: dict[str, Story] = answer["stories"]
    return found
