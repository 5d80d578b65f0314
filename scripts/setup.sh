#!/usr/bin/env bash
# Brings .venv up to date: locked dependencies, the native extension, the package itself (editable).
#
#   scripts/setup.sh          what running and checking needs, and bytecode of our modules
#   scripts/setup.sh jars     Ignite, ZooKeeper, Kafka and our gateway as jars, in cluster/target/jars
#   scripts/setup.sh spark    what Spark needs for Kafka as jars, in spark/target/jars
#   scripts/setup.sh tests    all jars, and what only the tests need from outside Python: mosquitto and mqtt.js
#
# A stamp with a digest of everything that went in makes a second call cheap.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
present() { command -v "$1" >/dev/null 2>&1 || [[ -x /usr/sbin/$1 ]]; }

# Installs Debian packages where we are root, and otherwise says how to. Returns 1 when they are not there after it.
packages() {
    if [[ $(id -u) != 0 ]] || ! present apt-get; then
        say "please install: sudo apt-get install $*"
        return 1
    fi
    say "apt-get install $*"
    # A freshly installed mosquitto would start at once and take port 1883; 101 means "do not start".
    local policy=/usr/sbin/policy-rc.d mine=
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && mine=1
    fi
    local status=0
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
        >.venv/apt.log 2>&1 || status=1
    [[ -z $mine ]] || rm -f $policy
    [[ $status == 0 ]] || say "apt-get failed; its words are in .venv/apt.log"
    return $status
}

digest() { cat "$@" 2>/dev/null | sha256sum | cut -d ' ' -f 1; }

# A Python 3.11 or newer that really runs (a version manager's shim may not) and can make virtual environments.
find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.11 /usr/bin/python3.11 python3 python3.12 python3.13; do
        [[ -n $candidate ]] || continue
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# Speaks only when it fails.
pip() {
    if ! .venv/bin/python -m pip --disable-pip-version-check "$@" >.venv/pip.log 2>&1; then
        tail -n 30 .venv/pip.log >&2
        die "pip failed; all of its words are in .venv/pip.log"
    fi
}

# Everything that .venv is made of; of our own modules those that mypyc compiles, and those that it took constants from.
python_sources() {
    digest scripts/setup.sh pyproject.toml setup.py requirements/dev.lock iot_mqtt/native/*.pyx iot_mqtt/compiled.{py,txt}
    cat iot_mqtt/compiled.{txt,digests} 2>/dev/null | sed -n 's/^\(iot_mqtt[^ ]*\).*/\1/p' | sort -u | xargs cat 2>/dev/null \
        | sha256sum
}

python_part() {
    local stamp=.venv/.setup
    if [[ -x .venv/bin/iot-mqtt && -f $stamp && $(<$stamp) == "$PWD $(python_sources)" ]]; then
        return
    fi
    mkdir -p .venv "$HOME"
    if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
        || ! grep -qsF "$PWD/.venv" .venv/bin/pip; then
        local python
        python=$(find_python) || { packages python3.11-venv && python=$(find_python); } || die "needs Python 3.11 or newer"
        say "making .venv with $python"
        "$python" -m venv --clear .venv
    fi
    say "installing the locked dependencies"
    rm -f $stamp
    pip install --require-hashes --no-deps -r requirements/dev.lock
    say "building iot-mqtt"
    pip install --no-build-isolation --no-deps --editable .
    printf '%s' "$PWD $(python_sources)" >$stamp
}

# Where Python may not write bytecode itself (PYTHONDONTWRITEBYTECODE), each start would compile all of it anew: half a
# second. What is up to date costs a look.
bytecode_part() { .venv/bin/python -m compileall -q iot_mqtt; }

tests_part() {
    local missing=()
    present mosquitto || missing+=(mosquitto)
    { present mosquitto_pub && present mosquitto_sub; } || missing+=(mosquitto-clients)
    # Network namespaces, for the tests of a split cluster; they need root anyway.
    [[ $EUID != 0 ]] || present ip || missing+=(iproute2)
    { present node && present npm; } || missing+=(nodejs npm)
    [[ ${#missing[@]} == 0 ]] || packages "${missing[@]}" || die "the tests need ${missing[*]}"

    local js=tests/system/js stamp wanted
    [[ -f $js/package-lock.json ]] || return 0
    stamp=$js/node_modules/.setup
    wanted=$(digest $js/package-lock.json)
    if [[ -f $stamp && $(<$stamp) == "$wanted" ]]; then
        return
    fi
    say "installing mqtt.js for the tests"
    npm ci --prefix $js --ignore-scripts --no-audit --no-fund --silent
    printf '%s' "$wanted" >$stamp
}

# One digest of all files given on standard input, names ended by a zero byte.
digest_of_all() { sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1; }

# Maven keeps what it has downloaded in ~/.m2; only a change of a pom or of the gateway makes it work again.
jars_part() {
    local stamp=cluster/target/.setup poms sources missing=()
    poms=$(find cluster -name target -prune -o -name pom.xml -type f -print0 | digest_of_all)
    sources=$(find cluster -name target -prune -o -path '*/src/*' -type f -print0 | digest_of_all)
    if [[ -f $stamp && $(<$stamp) == "$poms $sources" && -d cluster/target/jars ]]; then
        return
    fi
    present javac || missing+=(openjdk-17-jdk-headless)
    present mvn || missing+=(maven)
    [[ ${#missing[@]} == 0 ]] || packages "${missing[@]}" || die "the jars need Java 17 and Maven"
    say "making the jars of the cluster (Maven)"
    # With other versions in the poms, those of before must not stay on the class path.
    [[ ! -f $stamp || $(<$stamp) == "$poms "* ]] || rm -rf cluster/target/jars
    mkdir -p .venv
    if ! MAVEN_OPTS="${MAVEN_OPTS:-} -Duser.home=$HOME" \
        mvn -q -B -f cluster/pom.xml package -DskipTests >.venv/maven.log 2>&1; then
        tail -n 30 .venv/maven.log >&2
        die "mvn failed; all of its words are in .venv/maven.log"
    fi
    printf '%s' "$poms $sources" >$stamp
}

# The four jars of Spark's Kafka connector; Spark itself comes with pyspark.
spark_part() {
    local stamp=spark/target/.setup wanted missing=()
    wanted=$(digest spark/pom.xml)
    if [[ -f $stamp && $(<$stamp) == "$wanted" && -d spark/target/jars ]]; then
        return
    fi
    present java || missing+=(openjdk-17-jdk-headless)
    present mvn || missing+=(maven)
    [[ ${#missing[@]} == 0 ]] || packages "${missing[@]}" || die "the jars need Java 17 and Maven"
    say "making the jars of Spark's Kafka connector (Maven)"
    # Of other versions nothing may stay on the class path.
    rm -rf spark/target/jars
    mkdir -p .venv
    if ! MAVEN_OPTS="${MAVEN_OPTS:-} -Duser.home=$HOME" mvn -q -B -f spark/pom.xml package >.venv/maven.log 2>&1; then
        tail -n 30 .venv/maven.log >&2
        die "mvn failed; all of its words are in .venv/maven.log"
    fi
    printf '%s' "$wanted" >$stamp
}

export HOME="${HOME:-$PWD/.venv/home}"
case ${1:-} in
    '') python_part; bytecode_part ;;
    jars) jars_part ;;
    spark) spark_part ;;
    tests) jars_part; spark_part; tests_part ;;
    *) die "unknown argument: $1 (nothing, jars, spark or tests)" ;;
esac
