"""``iot-mqtt pipeline``: run the jobs of the pipeline, see how they do and what they made."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import date, datetime
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from iot_mqtt.app.config import Config, ConfigError, read_config
from iot_mqtt.app.config.cli import config_options, refused
from iot_mqtt.app.config.folders import pipeline_dir
from iot_mqtt.app.config.private_files import set_umask
from iot_mqtt.app.engines import shipped
from iot_mqtt.app.pipeline import launching
from iot_mqtt.app.pipeline.errors import PipelineError
from iot_mqtt.app.pipeline.report.files import files_of
from iot_mqtt.app.pipeline.settings import settings_of, text_of, uses_kafka, write_settings
from iot_mqtt.app.pipeline.status import print_jobs, read_status

#: Those that jobs write for readers.
TABLES = ("clean", "invalid", "aggregate", "aggregate_late", "alarms")

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group("pipeline")
def pipeline_group() -> None:
    """Clean, sum up and watch what has gone up, with Spark.

    The jobs are in the folder spark of the source, and in wheels; docs/pipeline.md says what they do and how to run
    them on a cluster.
    """


def with_config(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the configuration as its first argument, and turn failures into exit code 1."""

    @config_options
    @wraps(command)
    def configured(path: str | None, sets: tuple[str, ...], **arguments: Any) -> None:
        try:
            # Whether a node could serve with it, with its ports and certificates, is no matter here.
            command(read_config(path, sets).config, **arguments)
        except ConfigError as error:
            raise refused(error) from error
        except PipelineError as error:
            raise click.ClickException(str(error)) from error

    return configured


@pipeline_group.command()
@click.argument("job", type=click.Choice(launching.JOBS))
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, metavar="[-- SPARK-SUBMIT OPTIONS]")
@click.option("--once", is_flag=True, help="Take what there is and end, instead of waiting for more.")
@with_config
def run(config: Config, job: str, extra: tuple[str, ...], once: bool) -> None:
    """Run JOB on this machine until it gets SIGTERM or SIGINT.

    What stands behind `--` goes to spark-submit, such as `-- --conf spark.sql.shuffle.partitions=4`.
    """
    set_umask(config)
    settings = settings_of(config)
    folder = launching.find_folder(os.environ)
    launching.check_pyspark()
    launching.check_java()
    base = pipeline_dir(config)
    connector = launching.find_jars(folder) if uses_kafka(config) else []
    path = base / "settings" / f"{job}.json"
    write_settings(settings, path)
    launching.Launch(
        job=job,
        folder=folder,
        settings=path,
        master=config.pipeline.master,
        memory=config.pipeline.memory,
        jars=connector,
        once=once,
        extra=extra,
    ).become()


@pipeline_group.command()
def jars() -> None:
    """Make the jars that Spark reads and writes Kafka with, with Maven. Needs the network the first time.

    Beside them comes an archive of Spark's own classes, with which jobs start sooner.
    """
    try:
        folder = launching.find_folder(os.environ)
        click.echo(shipped.make(folder))
    except PipelineError as error:
        raise click.ClickException(str(error)) from error
    try:
        launching.make_archive(folder)
    except (PipelineError, OSError) as error:
        click.echo(f"jobs will start more slowly: {error}", err=True)


@pipeline_group.command()
@click.option("--dir", "base", help="Another directory for tables and checkpoints, as a cluster sees it.")
@with_config
def settings(config: Config, base: str | None) -> None:
    """Print what the jobs are told, as JSON. It may hold the passwords of Kafka."""
    click.echo(text_of(settings_of(config, base)), nl=False)


@pipeline_group.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_config
def status(config: Config, as_json: bool) -> None:
    """Rates, lag and watermark of each job, and whether it runs."""
    print_jobs([asdict(job) for job in read_status(pipeline_dir(config) / "status")], as_json)


@pipeline_group.command()
@click.argument("table", type=click.Choice(TABLES))
@click.option("--first", type=click.DateTime(["%Y-%m-%d"]), help="The first day, such as 2026-11-21.")
@click.option("--last", type=click.DateTime(["%Y-%m-%d"]), help="The last day.")
@with_config
def files(config: Config, table: str, first: datetime | None, last: datetime | None) -> None:
    """Print the Parquet files of TABLE that hold each of its rows once, one on each line.

    Whatever reads Parquet can be given them, while jobs run as well. They hold until `compact` runs the next time.
    """
    since, until = first.date() if first else date.min, last.date() if last else date.max
    for path in files_of(pipeline_dir(config) / "tables", table, since, until):
        click.echo(path)


@pipeline_group.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default="report.html", show_default=True)
@click.option("--days", type=click.IntRange(1, 366), default=1, show_default=True, help="Up to the newest reading.")
@click.option("--device", help="This device alone.")
@with_config
def report(config: Config, out: Path, days: int, device: str | None) -> None:
    """Write a page with the values, gaps and alarms of each device: one file of HTML that needs no network."""
    from iot_mqtt.app.pipeline.report.page import page
    from iot_mqtt.app.pipeline.report.tables import read

    tables = pipeline_dir(config) / "tables"
    text = page(read(tables, days, device), int(time.time() * 1000), str(tables))
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"cannot write {out}: {error.strerror}") from error
    click.echo(f"wrote {out}")
