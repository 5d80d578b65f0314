"""One coverage-guided search: atheris (libFuzzer) over one target. ``python -m tests.fuzz`` starts it."""

from __future__ import annotations

import logging
import sys

import atheris

with atheris.instrument_imports(include=["iot_mqtt"], enable_loader_override=False):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    target = TARGETS[sys.argv[1]]
    logging.disable(logging.CRITICAL)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
