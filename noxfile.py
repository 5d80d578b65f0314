"""The tasks behind the Makefile. Sessions use the .venv that ``make setup`` has made; nox makes none of its own."""

from __future__ import annotations

import os
from pathlib import Path

import nox

ROOT = Path(__file__).parent
BIN = ROOT / ".venv" / "bin"

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "type", "docs", "test"]


def run(session: nox.Session, program: str, *arguments: str, **environment: str) -> None:
    """Run a program of the checkout's own .venv."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    session.run(str(BIN / program), *arguments, external=True, env={"PATH": path, **environment})


@nox.session
def fmt(session: nox.Session) -> None:
    """Format, and mend what can be mended without thinking."""
    run(session, "ruff", "check", "--fix-only", "--quiet", ".")
    run(session, "ruff", "format", ".")


@nox.session
def lint(session: nox.Session) -> None:
    """Style, import rules, spelling, change fragments, and parts with known faults."""
    run(session, "ruff", "check", ".")
    run(session, "ruff", "format", "--check", ".")
    run(session, "lint-imports", "--no-logo")
    run(session, "codespell")
    run(session, "python", "scripts/changes.py", "check")
    run(session, "python", "scripts/parts.py", "check")


@nox.session(name="type")
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    run(session, "mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Check that the documentation points at things that exist, and the conformance matrix at all of its tests."""
    run(session, "python", "scripts/check_docs.py")
    run(session, "python", "tests/wire/conformance.py", "--check")


@nox.session
def site(session: nox.Session) -> None:
    """Build the documentation as a site, strictly."""
    run(session, "python", "scripts/make_site.py")


@nox.session
def test(session: nox.Session) -> None:
    """Run every test, or chosen ones, in four processes side by side."""
    run(session, "python", "scripts/run_tests.py", *session.posargs)


@nox.session
def unit(session: nox.Session) -> None:
    """Run the tests that need no process but their own."""
    run(session, "pytest", "tests/unit", "tests/property", "tests/contract", *session.posargs)


@nox.session
def quick(session: nox.Session) -> None:
    """Run what needs no process but its own and no seconds, on all processors."""
    fewer = {"SESSION_STEPS": "4000", "GROUP_STEPS": "1200", "TEST_EXAMPLES": "quick"}
    arguments = ("--numprocesses=auto", "--dist=worksteal", "--quiet", "-m", "not slow and not alone and not compiled")
    run(session, "pytest", *arguments, "tests/unit", "tests/property", *session.posargs, **fewer)


@nox.session
def wire(session: nox.Session) -> None:
    """Run the wire cases."""
    run(session, "pytest", "tests/wire", *session.posargs)


@nox.session
def system(session: nox.Session) -> None:
    """Run the tests against real broker processes."""
    run(session, "pytest", "tests/system", *session.posargs)


@nox.session
def cluster(session: nox.Session) -> None:
    """Run the tests against real Ignite, ZooKeeper and Kafka servers."""
    run(session, "pytest", "tests/cluster", *session.posargs)


@nox.session
def spark(session: nox.Session) -> None:
    """Run the tests of the pipeline's jobs."""
    run(session, "pytest", "tests/spark", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Run the project's own benchmarks."""
    run(session, "python", "-m", "benchmarks", *session.posargs)


@nox.session
def lock(session: nox.Session) -> None:
    """Resolve the dependencies again, with hashes and without the address of any index."""
    compile_lock(session, "run", "pyproject.toml")
    compile_lock(session, "dev", "pyproject.toml", group(session, "dev", "run"))
    compile_lock(session, "build", group(session, "build", "dev"))
    compile_lock(session, "release", group(session, "release", "dev"))
    compile_lock(session, "pipeline", "pyproject.toml", "--extra=pipeline", "--constraint=requirements/dev.lock")


def group(session: nox.Session, name: str, versions: str) -> str:
    """A file with what a group of pyproject.toml names, in the versions of a lock."""
    found = session.run(str(BIN / "dependency-groups"), name, external=True, silent=True)
    file = ROOT / ".venv" / f"{name}.in"
    file.write_text(f"-c ../requirements/{versions}.lock\n{found}", encoding="utf-8")
    return str(file.relative_to(ROOT))


def compile_lock(session: nox.Session, name: str, *sources: str) -> None:
    """Write requirements/<name>.lock from its sources."""
    session.run(
        str(BIN / "pip-compile"),
        *("--quiet", "--generate-hashes", "--allow-unsafe", "--strip-extras", "--no-build-isolation"),
        *("--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host", "--no-emit-options"),
        *("--output-file", f"requirements/{name}.lock", *session.posargs, *sources),
        external=True,
        env={"CUSTOM_COMPILE_COMMAND": "make lock"},
    )
