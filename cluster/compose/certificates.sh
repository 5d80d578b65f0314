#!/bin/sh
# Makes what the containers know each other by, and nothing that is there already: an authority in /tls, and in the
# volume of each part its certificate and secrets, which are for the eyes of its user alone. To renew them, remove the
# volumes tls-* and begin anew: docker compose down && docker volume rm iot-mqtt_authority iot-mqtt_tls-broker …
set -eu
umask 077
tls=${1:-/tls}
hosts="localhost 127.0.0.1 kafka"
for number in 1 2 3; do
    hosts="$hosts ignite-$number zookeeper-$number broker-$number"
done
iot-mqtt cluster certificates "$tls" ignite zookeeper kafka broker pipeline $(printf -- '--host %s ' $hosts)
for secret in token password; do
    [ -s "$tls/broker/$secret" ] || python -c 'import secrets; print(secrets.token_hex(16))' >"$tls/broker/$secret"
done
cp "$tls/broker/token" "$tls/ignite/token"
# As whom each image runs.
if [ "$(id -u)" = 0 ]; then
    chown -R 1000:1000 "$tls/zookeeper" "$tls/kafka"
    chown -R 10001:10001 "$tls/ignite" "$tls/broker" "$tls/pipeline"
    chmod 700 "$tls"/*/
fi
