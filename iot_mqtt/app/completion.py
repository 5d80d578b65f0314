"""``iot-mqtt completion SHELL``: the lines that have a shell complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_IOT_MQTT_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what has a shell complete commands, options and names of a running node.

    \b
    bash    eval "$(iot-mqtt completion bash)"        in ~/.bashrc
    zsh     eval "$(iot-mqtt completion zsh)"         in ~/.zshrc
    fish    iot-mqtt completion fish | source         in ~/.config/fish/config.fish
    """  # noqa: D301 - a sign of click's
    made = get_completion_class(shell)
    if made is None:
        raise click.ClickException(f"{shell} is not known to this version of click")
    click.echo(made(context.find_root().command, {}, "iot-mqtt", _VARIABLE).source())
