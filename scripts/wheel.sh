#!/usr/bin/env bash
# Makes a wheel in dist, compiled, for the Python of .venv, or another that PYTHON names, and for any Linux of that
# processor with a C library as old as auditwheel says (in the file's name). The same commit gives the same bytes, with
# the same compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'wheel: %s\n' "$*" >&2; }

# What an earlier build collected may be gone from the source; what it compiled is looked at again by itself.
forget() { find build/lib* build/bdist* -type f ! -name '*.so' -delete 2>/dev/null || true; }

# Not beside scripts/setup.sh, which compiles in the same folder.
! command -v flock >/dev/null || { exec 8<setup.py && flock 8; }
tools=.venv
if [[ -n ${PYTHON:-} ]]; then
    tools=build/python-$("$PYTHON" -c 'import sys; print(sys.implementation.cache_tag)')
    [[ -x $tools/bin/python ]] || "$PYTHON" -m venv "$tools"
fi
pip() { "$tools/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
# mypy looks at the libraries, too: without them it would compile, with less known, another thing.
pip install --require-hashes --no-deps -r requirements/run.lock
pip install --require-hashes --no-deps -r requirements/build.lock
pip install --require-hashes --no-deps -r requirements/release.lock

export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}"
export PYTHONHASHSEED=0
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
forget
say "building (a minute or two)"
IOT_MQTT_BUILD=require pip wheel --no-build-isolation --no-deps --wheel-dir "$raw" .
mkdir -p dist
if [[ $(uname -s) == Linux ]]; then
    PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --wheel-dir dist "$raw"/*.whl 2>"$raw/said" \
        || { cat "$raw/said" >&2; say "auditwheel refused it"; exit 1; }
else
    mv "$raw"/*.whl dist
fi
ls -1 dist/*.whl
