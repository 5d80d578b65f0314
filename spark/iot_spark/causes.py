"""Why something failed, in one sentence: the innermost cause of an error, of Python, of the JVM or of a task elsewhere.

::

    StreamingQueryException ─▶ Py4JException ─▶ SparkException "… most recent failure: … RecordTooLargeException: The …"
                                                                                     └─ this is what is told
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

#: What Spark raises: errors that it has a class for, and those of jobs, which it has none for.
FAILURES = (PySparkException, Py4JJavaError)
#: Of what a task on an executor has said, the driver has the text only.
_OF_TASK = re.compile(r"^(?:.*\): |Caused by: |\s*: )?((?:\w+\.)+\w*(?:Exception|Error)\w*): (.*)$", re.MULTILINE)
#: What has a cause that says more.
_OUTER = ("SparkException", "StreamingQueryException", "Py4JException", "Py4JJavaError")
#: Links of a chain that are followed; a bound, not a tuning knob.
_DEEPEST = 50
LONGEST = 500


def root_cause(error: BaseException) -> str:
    """The innermost cause: its name and what it says, on one line."""
    name, text = [*chain(error)][-1]
    if name in _OUTER and (inside := _OF_TASK.findall(text)):
        whole, text = inside[-1]
        name = whole.rpartition(".")[2]
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    return (f"{name}: {line}" if line else name)[:LONGEST]


def names(error: BaseException) -> set[str]:
    """The classes of an error and of everything that caused it, without their packages."""
    found = set()
    for name, text in chain(error):
        found.add(name)
        found.update(whole.rpartition(".")[2] for whole, _ in _OF_TASK.findall(text))
    return found


def chain(error: BaseException) -> Iterator[tuple[str, str]]:
    """The classes and texts, from the outermost inwards."""
    now: BaseException | None = error
    for _ in range(_DEEPEST):
        if now is None:
            return
        # Spark's own errors, and those of the bridge between the two languages.
        thrown = getattr(now, "_origin", None) or getattr(now, "java_exception", None)
        yield type(now).__name__, str(now)
        if thrown is not None:
            yield from _thrown(thrown)
            return
        now = now.__cause__


def _thrown(thrown: Any) -> Iterator[tuple[str, str]]:
    for _ in range(_DEEPEST):
        if thrown is None:
            return
        yield str(thrown.getClass().getSimpleName()), str(thrown.getMessage() or "")
        thrown = thrown.getCause()
