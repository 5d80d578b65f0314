"""What the jobs of ``spark/`` are told, made from the configuration: ``settings.json``.

They read it with ``iot_spark.settings`` and know nothing else of the broker: no YAML, no environment. The rules travel
in it, too, so that a cluster needs this one file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from iot_mqtt.app.config.folders import pipeline_dir, uplink_dir
from iot_mqtt.app.config.sections import Config
from iot_mqtt.app.config.yaml_loader import yaml_of
from iot_mqtt.app.pipeline.errors import PipelineError
from iot_mqtt.app.pipeline.kafka_options import kafka_options

Json = dict[str, Any]

#: Enough for thousands of rules.
MAX_RULES = 1024 * 1024


def source_kind(config: Config) -> str:
    """``files`` or ``kafka``."""
    if config.pipeline.source != "auto":
        return config.pipeline.source
    if config.uplink.kind == "none":
        raise PipelineError("nothing goes up: uplink.kind is none; set it to file or kafka, or name pipeline.source")
    return "files" if config.uplink.kind == "file" else "kafka"


def uses_kafka(config: Config) -> bool:
    """Whether a job reads from Kafka or writes to it."""
    return source_kind(config) == "kafka" or config.uplink.kind == "kafka"


def settings_of(config: Config, base: str | None = None) -> Json:
    """The content of ``settings.json``; ``base`` stands for ``pipeline.dir``."""
    told, kafka = config.pipeline, uses_kafka(config)
    base = (base or str(pipeline_dir(config))).rstrip("/")
    sections = {"clean": asdict(told.clean), "aggregate": asdict(told.aggregate), "alarm": asdict(told.alarm)}
    return {
        "source": {
            "kind": source_kind(config),
            "topics": list(told.topics),
            "dir": str(uplink_dir(config).absolute()),
            "bootstrap_servers": ",".join(config.uplink.kafka.bootstrap_servers),
            "kafka_options": kafka_options(config.uplink.kafka.security) if kafka else {},
            "max_records": told.max_records,
            "max_files": told.max_files,
        },
        "tables": f"{base}/tables",
        "checkpoints": f"{base}/checkpoints",
        "status": f"{base}/status",
        "trigger_seconds": told.trigger_seconds,
        "watermark_minutes": told.watermark_minutes,
        **{job: _of_job(section, kafka) for job, section in sections.items()},
        "rules": read_rules(told.rules),
        "master": told.master,
    }


def _of_job(section: Json, kafka: bool) -> Json:
    """Without Kafka there are no topics to write to."""
    return {name: None if name.endswith("topic") and not kafka else value for name, value in section.items()}


def read_rules(path: str | None) -> Json:
    """The rules of a YAML file, as they are; whether they make sense, the jobs say."""
    if path is None:
        return {"clean": [], "alarms": []}
    try:
        text = Path(path).read_bytes()
        if len(text) > MAX_RULES:
            raise PipelineError(f"{path}: has {len(text)} bytes; {MAX_RULES} are allowed")
        told = yaml_of(text)
    except OSError as error:
        raise PipelineError(f"pipeline.rules: {path}: {error.strerror}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise PipelineError(f"pipeline.rules: {path}: {error}") from error
    told = {} if told is None else told
    if not isinstance(told, Mapping):
        raise PipelineError(f"pipeline.rules: {path}: must be a mapping with `clean:` and `alarms:`")
    if unknown := sorted(map(str, told.keys() - {"clean", "alarms"})):
        raise PipelineError(f"pipeline.rules: {path}: unknown key {unknown[0]!r}; there are clean and alarms")
    return {name: _listed(path, name, told.get(name)) for name in ("clean", "alarms")}


def _listed(path: str, name: str, rules: object) -> list[Any]:
    if rules is None:
        return []
    if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
        raise PipelineError(f"pipeline.rules: {path}: {name} must be a list of mappings")
    try:
        # What YAML has and JSON has not, such as dates, and numbers that are none.
        copy: list[Any] = json.loads(json.dumps(rules, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise PipelineError(f"pipeline.rules: {path}: {name}: {error}; write it in quotes") from error
    return copy


def text_of(settings: Json) -> str:
    """The JSON, for people as well."""
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def write_settings(settings: Json, path: Path) -> None:
    """Write it whole or not at all, for its owner only: it may hold the passwords of Kafka."""
    made = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made.unlink(missing_ok=True)
        made.touch(mode=0o600, exist_ok=False)
        made.write_text(text_of(settings), encoding="utf-8")
        made.replace(path)
    except OSError as error:
        raise PipelineError(f"cannot write {path}: {error.strerror}") from error
