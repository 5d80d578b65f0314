"""The layers of configuration as flat lists of settings, each with the place it was written at.

File, environment and ``--set`` come out in the same form: a dotted key, a value, an origin. What came as text
(environment, ``--set``) says so, because there ``5`` may be meant as a number or as a name; the schema decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from iot_mqtt.app.config.errors import Layer, Origin, Problem
from iot_mqtt.app.config.yaml_loader import Loader, yaml_of
from iot_mqtt.plain_files import read_again

ENVIRONMENT_PREFIX = "IOT_MQTT__"
_NEARLY = "IOT_MQTT_"
#: Read when it is there and no other file is named.
DEFAULT_FILE = "application.yaml"
#: ``node.data_dir`` where nobody says another.
DEFAULT_DATA_DIR = "data"

#: No section lies deeper; a file whose anchors contain themselves ends here.
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Setting:
    """One key as one layer has it. ``is_text``: the value is a string still to be read by the key's type."""

    key: str
    value: object
    origin: Origin
    is_text: bool = False


def default_file() -> str | None:
    """The configuration file of the working directory, if there is one."""
    return DEFAULT_FILE if Path(DEFAULT_FILE).is_file() else None


def file_settings(
    path: str, problems: list[Problem], layer: Layer = Layer.FILE, *, had_content: bool = False
) -> list[Setting]:
    """Every leaf of a YAML file with its line and column; none if it is not readable as one mapping. One that
    ``had_content`` must not be empty.
    """
    try:
        root = yaml.compose(read_again(path, had_content=had_content).decode(), Loader=Loader)
    except OSError as error:
        problems.append(Problem(Origin(layer, path), "", _reason(error)))
        return []
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problems.append(Problem(Origin(layer, f"{path}:{line}"), "", "is not UTF-8"))
        return []
    except yaml.YAMLError as error:
        problems.append(_syntax_problem(path, error, layer))
        return []
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        problems.append(Problem(_origin(path, root, layer), "", "must be a mapping of sections"))
        return []
    return list(_leaves(root, "", partial(_origin, path, layer=layer), problems))


def environment_settings(environ: Mapping[str, str]) -> list[Setting]:
    """``IOT_MQTT__LISTENERS__MQTT__PORT=1884`` is ``listeners.mqtt.port`` = 1884."""
    return [
        Setting(
            ".".join(name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")),
            value,
            Origin(Layer.ENVIRONMENT, name, str(Path.cwd())),
            is_text=True,
        )
        for name, value in sorted(environ.items())
        if name.startswith(ENVIRONMENT_PREFIX)
    ]


def misspelled(environ: Mapping[str, str]) -> Iterator[Problem]:
    """Variables that look like keys and are none; those of others have no two underscores behind our name."""
    for name in sorted(environ):
        rest = name.removeprefix(_NEARLY)
        if rest != name and "__" in rest.lstrip("_") and not name.startswith(ENVIRONMENT_PREFIX):
            text = f"is no key: two underscores stand behind IOT_MQTT, too; did you mean {ENVIRONMENT_PREFIX}{rest}?"
            yield Problem(Origin(Layer.ENVIRONMENT, name), "", text)


def look_alikes(environ: Mapping[str, str], keys: Iterable[str]) -> Iterator[Problem]:
    """Variables that are keys but for the number of underscores between their names. Others are not ours to judge:
    Kubernetes makes some for each service, whatever it is called.
    """
    meant = {key.replace(".", "_").upper(): key for key in keys}
    for name in sorted(environ):
        key = meant.get(name.removeprefix(_NEARLY)) if name.startswith(_NEARLY) else None
        if key is not None:
            said = ENVIRONMENT_PREFIX + key.upper().replace(".", "__")
            yield Problem(Origin(Layer.ENVIRONMENT, name), "", f"is read by nobody; did you mean {said}?")


def command_settings(sets: Iterable[str], problems: list[Problem]) -> list[Setting]:
    """``--set a.b=value``, in the order given."""
    settings = []
    for text in sets:
        name, equals, value = text.partition("=")
        key = name.strip()
        if equals and key:
            origin = Origin(Layer.SET, f"--set {key}", str(Path.cwd()))
            settings.append(Setting(key, value, origin, is_text=True))
        else:
            problems.append(Problem(Origin(Layer.SET, f"--set {text}"), "", "must be KEY=VALUE"))
    return settings


def expanded(setting: Setting) -> Iterator[Setting]:
    """A mapping given as text for a whole section (``--set listeners.mqtt={port: 0}``) as its leaves."""
    value = setting.value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = content_of(setting)
    if isinstance(value, dict):
        yield from _spread(setting.key, value, setting.origin)
    else:
        yield setting


def data_dir_of(layers: Iterable[Iterable[Setting]], default: str) -> str:
    """The data directory as the other layers have it, the lowest first; it is needed before they are checked."""
    found = str(Path(default).absolute())
    for layer in layers:
        for setting in layer:
            for leaf in expanded(setting):
                if leaf.key == "node.data_dir" and isinstance(leaf.value, str) and "\0" not in leaf.value:
                    found = str((Path(leaf.origin.directory) / Path(leaf.value).expanduser()).absolute())
    return found


def content_of(setting: Setting) -> object:
    """The value; where it came as text, what the text is as YAML."""
    if not setting.is_text or not isinstance(setting.value, str):
        return setting.value
    try:
        found = yaml_of(setting.value)
    except (yaml.YAMLError, ValueError):  # 2026-99-99 looks like a date
        return setting.value
    return found


def _spread(key: str, value: object, origin: Origin) -> Iterator[Setting]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _spread(f"{key}.{name}", inner, origin)
    else:
        yield Setting(key, value, origin)


def _leaves(
    node: yaml.MappingNode, prefix: str, origin_of: Callable[[yaml.Node], Origin], problems: list[Problem]
) -> Iterator[Setting]:
    seen: set[str] = set()
    for key_node, value_node in node.value:
        origin = origin_of(key_node)
        name = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
        key = f"{prefix}{name}"
        if name in seen:
            problems.append(Problem(origin, key, "written twice"))
        seen.add(name)
        if key.count(".") >= _DEEPEST:
            problems.append(Problem(origin, key, "nested too deep"))
            return
        if isinstance(value_node, yaml.MappingNode) and value_node.value:
            yield from _leaves(value_node, f"{key}.", origin_of, problems)
            continue
        try:
            yield Setting(key, _constructed(value_node), origin)
        except yaml.YAMLError as error:
            problems.append(Problem(origin, key, _reason(error)))


def _constructed(node: yaml.Node) -> object:
    loader = yaml.SafeLoader("")
    try:
        value: object = loader.construct_object(node, deep=True)
        return value
    except ValueError as error:  # 2026-99-99 looks like a date
        raise yaml.YAMLError(f"cannot be read: {error}") from error
    except RecursionError as error:  # anchors within anchors
        raise yaml.YAMLError("is nested too deep") from error
    finally:
        loader.dispose()


def _origin(path: str, node: yaml.Node, layer: Layer) -> Origin:
    mark = node.start_mark
    where = f"{path}:{mark.line + 1}:{mark.column + 1}"
    return Origin(layer, where, str(Path(path).absolute().parent))


def _syntax_problem(path: str, error: yaml.YAMLError, layer: Layer) -> Problem:
    mark = getattr(error, "problem_mark", None)
    where = path if mark is None else f"{path}:{mark.line + 1}:{mark.column + 1}"
    return Problem(Origin(layer, where), "", f"is not YAML: {_reason(error)}")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(getattr(error, "problem", None) or error).split("\n")[0]
