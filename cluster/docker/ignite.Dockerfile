# An Ignite server with the messaging gateway in it. Build from the top of the checkout:
#
#   docker build -f cluster/docker/ignite.Dockerfile -t iot-mqtt-ignite:0.1.0 .
FROM maven:3.9.9-eclipse-temurin-17 AS jars
WORKDIR /src
COPY cluster/pom.xml cluster/pom.xml
COPY cluster/engines cluster/engines
COPY cluster/gateway cluster/gateway
RUN mvn -q -B -f cluster/pom.xml package -DskipTests

FROM eclipse-temurin:17.0.15_6-jre-jammy
RUN groupadd --gid 10001 ignite \
    && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin ignite \
    && install -d -o ignite -g ignite -m 0750 /data
COPY --from=jars /src/cluster/target/jars/ignite /opt/iot-mqtt/jars
COPY cluster/config/ignite-server.xml cluster/config/ignite-java17.opts /opt/iot-mqtt/config/
COPY --chmod=0755 cluster/docker/ignite-start.sh /opt/iot-mqtt/ignite-start.sh
USER 10001:10001
VOLUME /data
# Thin clients, gateway, discovery, communication.
EXPOSE 10800 10900 11000 11100
STOPSIGNAL SIGTERM
ENTRYPOINT ["/opt/iot-mqtt/ignite-start.sh"]
