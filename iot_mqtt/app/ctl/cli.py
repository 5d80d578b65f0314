"""``iot-mqtt ctl``: look at a running node and act on it, through its admin API and nothing else."""

from __future__ import annotations

import click

from iot_mqtt.app.ctl.command import target_options
from iot_mqtt.app.lazy import LazyCommand, LazyGroup

#: Name, module and attribute, help.
_COMMANDS = (
    (
        "admins",
        "admins:admins",
        "Users of the admin port, with a role: they log in with a browser.",
    ),
    ("alarms", "status:alarms", "What an operator should know: what goes on, since when, what was, and what helps."),
    ("audit", "access:audit", "What was changed through the nodes, and by whom."),
    ("auth", "auth:auth", "Who is let in, and why."),
    ("bans", "bans:bans", "Who is not let in, whoever he is: known on every node, seen within a second."),
    ("capture", "capture:capture", "Captures of what gateways say and are told; `iot-mqtt frames` reads them."),
    ("clients", "clients:clients", "Connected clients."),
    ("cluster", "cluster:cluster", "The cluster as the node sees it."),
    ("commands", "devices:commands", "Commands to devices, and what became of them."),
    ("config", "config:config", "What the node goes by, and who says so."),
    ("devices", "devices:devices", "Gateways and the devices behind them."),
    ("dropped", "dropped:dropped", "The last of what did not arrive: dropped, refused, denied, not let in."),
    ("groups", "subscriptions:groups", "Shared groups: subscriptions of which one member gets each message."),
    ("limits", "limits:limits", "Who may use up how much: limits of the grid, changed within a second."),
    ("listeners", "listeners:listeners", "The ports that clients connect to."),
    ("log", "log:log", "The log of messages for durable sessions."),
    ("metrics", "status:metrics", "Print the metrics as Prometheus reads them; with --json the counters of `status`."),
    ("node", "cluster:drain_group", "The node's clients, on their way to other nodes."),
    ("nodes", "cluster:nodes", "Nodes of the cluster."),
    ("packets", "packets:packets", "Show the last packets of a client: `->` came from it, `<-` went to it."),
    ("pipeline", "pipeline:pipeline", "The jobs that read the uplink."),
    ("plugins", "plugins:plugins", "Codecs of other protocols than MQTT."),
    ("publish", "messages:publish", "Publish PAYLOAD to TOPIC as the node; `-` reads the payload from standard input."),
    ("retained", "messages:retained", "Retained messages."),
    ("routes", "subscriptions:routes", "Filters that somebody has subscribed to."),
    ("sessions", "sessions:sessions", "Sessions, connected or not."),
    ("shadow", "devices:shadow", "What a device reported, and what is desired of it."),
    ("slow", "slow:slow", "For whom messages wait, or who does not read, and why; those for whom most waits first."),
    ("status", "status:status", "The node in one look."),
    ("subscriptions", "subscriptions:subscriptions", "Subscriptions."),
    ("tokens", "access:tokens", "Tokens of the API: with a role, a scope and an end, known on every node."),
    ("topics", "topic_tree:topics", "Topics: the busiest, the tree of those that are known, a search in them."),
    ("top", "slow:top", "Rates, drops, lateness, the busiest and the slowest clients, again and again."),
    ("trace", "packets:trace", "Show packets of a CLIENT, a topic or an address as they come and go, on all nodes."),
    ("uplink", "uplink:uplink", "What leaves towards the data platform."),
    ("users", "users:users", "Users of the grid: known on every node, changed within a second."),
    ("why", "why:why", "Say why a client does or does not get its messages, as all nodes know it."),
)
COMMANDS = tuple(LazyCommand(name, f"iot_mqtt.app.ctl.{place}", help) for name, place, help in _COMMANDS)


class _CtlGroup(LazyGroup):
    """When a shell completes, parameters know which names there are."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if ctx.resilient_parsing and name is not None and command is not None:
            # Late: only a shell asks.
            from iot_mqtt.app.ctl.completing import prepare

            prepare(name, command)
        return name, command, rest


@click.group(cls=_CtlGroup, lazy=COMMANDS)
@target_options
def ctl() -> None:
    """Look at a running node and act on it.

    The node is found through --url and --token, or else through its data directory, which comes from --data-dir
    or the configuration. The token of a data directory is sent to no other node than the one whose address is in
    there, and, if you name the directory with --data-dir, one of this machine.
    """
