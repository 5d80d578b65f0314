"""What has ended in a story and is still there, because it refers to itself.

A node looks at what is old when its memory has doubled, and nobody is served meanwhile (docs/adr/0016): what sessions,
messages and groups leave behind has to be freed without that. Errors may be in cycles with their tracebacks: those end
soon, and are found young.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable
from types import CoroutineType, FrameType, TracebackType

#: Whose objects there may be many of. A connection's decoder is in a cycle of the tests' own when its node has died.
PACKAGES = ("iot_mqtt.broker", "iot_mqtt.session", "iot_mqtt.topics")
SOON_OVER = (CoroutineType, FrameType, TracebackType)
#: What mypyc makes of frames that functions within a function share.
COMPILED_FRAMES = ("_env", "_gen", "_obj")


def begin() -> None:
    """What there is now is not looked at."""
    gc.freeze()


def left_behind() -> Counter[str]:
    """How many objects of each class there are that nothing but cycles keep."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = {id(one): one for one in gc.garbage}
    gc.garbage.clear()
    excused = _reached(found, [one for one in found.values() if _is_soon_over(one)])
    classes = (type(one) for number, one in found.items() if number not in excused)
    return Counter(one.__qualname__ for one in classes if one.__module__.startswith(PACKAGES))


def _is_soon_over(one: object) -> bool:
    return isinstance(one, SOON_OVER) or type(one).__name__.endswith(COMPILED_FRAMES)


def _reached(among: dict[int, object], start: Iterable[object]) -> set[int]:
    """What of these is referred to from there, over any number of steps."""
    reached = {id(one) for one in start}
    new = list(start)
    while new:
        referred = {id(one): one for one in gc.get_referents(*new) if id(one) in among and id(one) not in reached}
        reached |= referred.keys()
        new = list(referred.values())
    return reached
