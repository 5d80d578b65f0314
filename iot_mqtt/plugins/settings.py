"""The limits that codecs are kept within."""

from __future__ import annotations

from dataclasses import dataclass, field

MIB = 1024 * 1024
#: What becomes of a worker on a host that can't enforce all of its sandbox: it is told, or refused; or there is none.
AVAILABLE, REQUIRED, OFF = "available", "required", "off"


@dataclass(frozen=True, slots=True)
class Limits:
    """Defaults fit a gateway's protocol; ``plugins.<name>`` may say otherwise."""

    # A call that is this slow, in seconds for each of its frames, is counted; inline it is a light fault, too …
    slow_frame: float = 0.05
    # … in a worker process one of them that takes this long is: the others of its plugin had to wait …
    stall: float = 0.5
    # … and inline a whole call that is this slow puts the plugin into quarantine at once: everybody had to wait.
    slow_call: float = 2.0

    # Faults. A grave one (the worker died, timed out, wrote garbage) holds off the device on whose frame it happened,
    # or its address. So many addresses that show one within the window: quarantine.
    window: float = 60.0
    grave_faults: int = 3
    # Light ones (exceptions, slow frames). A device that uses up its share is held off alone: one broken gateway
    # must not cut off all others that speak its protocol. Only faults of several are the plugin's.
    faults_per_peer: int = 5
    light_faults: int = 20
    light_peers: int = 3
    # Seconds for which one is held off; each time within a day lasts twice as long as the one before.
    hold_off: float = 10.0
    hold_off_most: float = 3600.0
    # Seconds; each quarantine within a day after the one before lasts twice as long.
    quarantine: float = 60.0
    quarantine_most: float = 3600.0

    # Process: the oldest unanswered batch is this old, in seconds: the worker is killed.
    answer_within: float = 2.0
    start_within: float = 10.0
    backoff: float = 0.1
    backoff_most: float = 10.0
    # Address space of a worker, in bytes. Shared libraries count, so numpy needs 2 GiB or so.
    memory: int = 512 * MIB
    open_files: int = 64
    # Of a file that it writes, where its sandbox is off.
    file_size: int = 64 * MIB
    nice: int = 5
    # Unanswered bytes of frames: above this a connection, or all of a worker, are asked to wait.
    connection_bytes: int = 256 * 1024
    worker_bytes: int = 4 * MIB


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """The section ``plugins.<name>``."""

    enabled: bool = True
    #: None: "inline" for the bundled protocols, "process" for all others.
    isolation: str | None = None
    config: dict[str, object] = field(default_factory=dict)
    limits: Limits = Limits()
    #: "available", "required" or "off".
    sandbox: str = AVAILABLE
