#!/usr/bin/env bash
# Makes dist/iot-mqtt_VERSION_ARCH.deb of the wheel in dist, for the Debian that this runs on: a virtual environment of its
# Python in /usr/lib/iot-mqtt with the locked dependencies, the unit, its user, and /etc/iot-mqtt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'deb: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

python=/usr/bin/python3
"$python" -c 'import ensurepip' 2>/dev/null || die "needs Debian's own Python: sudo apt-get install python3-venv"
command -v dpkg-deb >/dev/null || die "needs dpkg-deb"
read -r minor next tag < <("$python" -c 'import sys; a, b = sys.version_info[:2]; print(f"{a}.{b}", f"{a}.{b + 1}", f"cp{a}{b}")')
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' iot_mqtt/__init__.py)
architecture=$(dpkg --print-architecture)
wheel=$(find dist -name "iot_mqtt-$version-$tag-*.whl" 2>/dev/null | head -n 1)
[[ -n $wheel ]] || die "there is no wheel of $version for Python $minor: PYTHON=$python make wheel"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"
home=$stage/usr/lib/iot-mqtt
install -d "$stage/usr/bin" "$stage/usr/lib/sysusers.d" "$stage/usr/lib/tmpfiles.d" "$stage/DEBIAN" "$home"
install -d "$stage/lib/systemd/system" "$stage/usr/share/doc/iot-mqtt" "$stage/etc/iot-mqtt"

say "installing into a virtual environment"
"$python" -m venv "$home"
pip() { "$home/bin/python3" -m pip --disable-pip-version-check --quiet --no-cache-dir "$@"; }
pip install --no-compile --only-binary :all: --require-hashes --no-deps -r requirements/run.lock
pip install --no-compile --no-deps "$wheel"
# Scripts that name this folder; pip stays, as a module, for plugins are installed with it.
find "$home/bin" -mindepth 1 ! -name 'python*' -delete
rm -rf "$home/lib64" && ln -s lib "$home/lib64"
find "$home" -name direct_url.json -delete
sed -i '/^command = /d' "$home/pyvenv.cfg"
cat >"$home/bin/iot-mqtt" <<'END'
#!/usr/lib/iot-mqtt/bin/python3
import sys

from iot_mqtt.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
END
chmod 755 "$home/bin/iot-mqtt"
find "$home" -name __pycache__ -prune -exec rm -rf {} +
"$python" -m compileall -q --invalidation-mode unchecked-hash -s "$stage" -p / "$home/lib"
ln -s ../lib/iot-mqtt/bin/iot-mqtt "$stage/usr/bin/iot-mqtt"

install -m 644 packaging/systemd/iot-mqtt.service "$stage/lib/systemd/system/"
install -m 644 packaging/systemd/sysusers.conf "$stage/usr/lib/sysusers.d/iot-mqtt.conf"
install -m 644 packaging/systemd/tmpfiles.conf "$stage/usr/lib/tmpfiles.d/iot-mqtt.conf"
install -m 640 application.yaml "$stage/etc/iot-mqtt/"
install -m 644 LICENSE "$stage/usr/share/doc/iot-mqtt/copyright"
gzip -9n <CHANGELOG.md >"$stage/usr/share/doc/iot-mqtt/changelog.gz"

install -m 755 packaging/debian/{postinst,prerm,postrm} "$stage/DEBIAN/"
echo /etc/iot-mqtt/application.yaml >"$stage/DEBIAN/conffiles"
cat >"$stage/DEBIAN/control" <<END
Package: iot-mqtt
Version: $version
Architecture: $architecture
Maintainer: iot-mqtt developers <iot-mqtt@localhost>
Installed-Size: $(du -sk "$stage" | cut -f 1)
Depends: python3 (>= $minor), python3 (<< $next~), libc6 (>= 2.17), systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles
Suggests: default-jre-headless (>= 2:1.17), mosquitto-clients
Section: net
Priority: optional
Description: clustered MQTT broker for factories and other fleets of devices
 MQTT 3.1, 3.1.1 and 5.0, frames of PLC gateways, commands to devices, and a log
 that messages wait in. One process by itself, or one node of many on Apache
 Ignite. Listens on the loopback interface until it is told otherwise.
END
find "$stage" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p dist
dpkg-deb --root-owner-group -Zxz --build "$stage" "dist/iot-mqtt_${version}_$architecture.deb" >/dev/null
ls -1 "dist/iot-mqtt_${version}_$architecture.deb"
