"""Waiting for what must become true, and clients that run as tasks."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable

from systemkit.durable import DurableClient

STEP = 0.005
#: Seconds that a machine which does other things may add to what is promised. A quiet one needs hardly any.
AIR = float(os.environ.get("TEST_AIR", "5"))


async def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for it, but no longer; whether it came true."""
    deadline = time.monotonic() + seconds
    while True:
        if condition():
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(STEP)


def wait_until(condition: Callable[[], object], seconds: float = 20) -> float:
    """The same for a test without an event loop, which fails when it does not come true; how long that took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"it did not happen in {seconds} s"
        time.sleep(0.02)
    return time.monotonic() - began


def run_all(clients: Iterable[DurableClient]) -> list[asyncio.Task[None]]:
    """Let clients connect, and connect again, until they are stopped."""
    return [asyncio.create_task(client.run()) for client in clients]


async def all_connected(clients: Iterable[DurableClient], seconds: float = 60) -> None:
    """Wait until each has its session."""
    async with asyncio.timeout(seconds):
        await asyncio.gather(*(client.connected() for client in clients))


async def stop_all(tasks: Iterable[asyncio.Task[None]]) -> None:
    """End them; what one of them stumbled over is raised."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
