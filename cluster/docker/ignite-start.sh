#!/bin/sh
# Starts an Ignite server as its environment says:
#
#   IGNITE_NAME        its name, and its identity for the data it keeps      (the host's name)
#   IGNITE_HOST        address that the other servers and clients reach it at  (the host's address)
#   IGNITE_SERVERS     host:port of discovery of every server, by commas     (itself alone)
#   IGNITE_BACKUPS     further copies of everything                          (1)
#   IGNITE_QUORUM      with fewer servers nothing is answered; 2 of 3, 3 of 5    (1)
#   IGNITE_REGION      bytes for data                                        (512 MiB)
#   IGNITE_PERSISTENCE true keeps the data on disk, in /data                 (false)
#   IGNITE_WAL         LOG_ONLY survives a crash, FSYNC a power failure too  (LOG_ONLY)
#   IGNITE_HEAP        Java's heap                                           (512m)
#   IGNITE_TLS         directory with tls.crt, tls.key and ca.crt (PEM): TLS on every port, with certificates of both sides
#   IGNITE_PLAIN       true: no TLS, in a network where nobody else is         (false)
#   IOT_GATEWAY_TOKEN_FILE  file with what brokers must know          (what IOT_GATEWAY_TOKEN says, which is worse)
set -eu
if [ -n "${IOT_GATEWAY_TOKEN_FILE:-}" ]; then
    IOT_GATEWAY_TOKEN=$(cat "$IOT_GATEWAY_TOKEN_FILE")
fi
: "${IOT_GATEWAY_TOKEN:?is not set: brokers and gateways share one random token}"
name=${IGNITE_NAME:-$(hostname)}
host=${IGNITE_HOST:-$(hostname -i | cut -d ' ' -f 1)}
heap=${IGNITE_HEAP:-512m}

# The token goes into a file, because everybody may read the arguments of a process.
umask 077
arguments=$(mktemp -p /tmp ignite.XXXXXX)
cat >"$arguments" <<END
-Xms$heap
-Xmx$heap
-Diot.ignite.name=$name
-Diot.ignite.host=$host
-Diot.ignite.work=/data
-Diot.ignite.discovery.addresses=${IGNITE_SERVERS:-$host:11000}
-Diot.ignite.backups=${IGNITE_BACKUPS:-1}
-Diot.ignite.quorum=${IGNITE_QUORUM:-1}
-Diot.ignite.region.bytes=${IGNITE_REGION:-536870912}
-Diot.ignite.persistence=${IGNITE_PERSISTENCE:-false}
-Diot.ignite.wal=${IGNITE_WAL:-LOG_ONLY}
-Diot.gateway.host=0.0.0.0
-Diot.gateway.port=10900
-Diot.gateway.token=$IOT_GATEWAY_TOKEN
END
if [ -n "${IGNITE_TLS:-}" ]; then
    cat >>"$arguments" <<END
-Diot.tls.cert=$IGNITE_TLS/tls.crt
-Diot.tls.key=$IGNITE_TLS/tls.key
-Diot.tls.ca=$IGNITE_TLS/ca.crt
END
else
    echo "-Diot.tls.plain=${IGNITE_PLAIN:-false}" >>"$arguments"
fi
unset IOT_GATEWAY_TOKEN
exec java @/opt/iot-mqtt/config/ignite-java17.opts "@$arguments" -cp '/opt/iot-mqtt/jars/*' \
    org.apache.ignite.startup.cmdline.CommandLineStartup /opt/iot-mqtt/config/ignite-server.xml
