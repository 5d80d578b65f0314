"""Secrets among the arguments of a command, which every user of the machine can read in the list of processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from iot_mqtt.secrecy import MASK, is_secret, masked_text

#: Options whose names do not say that a password stands behind them: those of mosquitto's clients.
_PASSWORDS: Final = ("-P", "--pw")


def hide_secrets(arguments: Sequence[str]) -> None:
    """Have the list of processes show the command without the secrets in its arguments, if there are any.

    For the moment before this they were to be seen: a file (``KEY_file``) or the environment keeps them better.
    """
    shown = list(without_secrets(arguments))
    if shown != list(arguments):
        # Late: hardly any command needs it.
        from setproctitle import setproctitle

        # A shell passes any bytes, and this takes text.
        setproctitle(" ".join(shown).encode("utf-8", "backslashreplace").decode())


def without_secrets(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments with ``******`` for what belongs to an option, or a key of ``--set``, that names a secret."""
    before = ""
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if before == "--set":
            yield _setting(argument)
        elif before in _PASSWORDS or (before.startswith("--") and "=" not in before and is_secret(before)):
            yield MASK
        elif argument.startswith("-P") and len(argument) > 2:
            yield f"-P{MASK}"
        elif option == "--set" and equals:
            yield f"--set={_setting(value)}"
        elif option.startswith("--") and equals and (option in _PASSWORDS or is_secret(option)):
            yield f"{option}={MASK}"
        else:
            yield masked_text(argument)
        before = argument


def _setting(text: str) -> str:
    key, equals, value = text.partition("=")
    names_one = is_secret(key) or (value.lstrip().startswith("{") and is_secret(value))
    return f"{key}={MASK}" if equals and names_one else masked_text(text)
