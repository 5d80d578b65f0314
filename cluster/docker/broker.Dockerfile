# A broker node, and with `--target pipeline` the image that Spark's jobs run in. Build from the top of the checkout:
#
#   docker build -f cluster/docker/broker.Dockerfile -t iot-mqtt:0.1.0 .
#   docker build -f cluster/docker/broker.Dockerfile -t iot-mqtt-pipeline:0.1.0 --target pipeline .
FROM python:3.11.11-bookworm AS wheels
WORKDIR /src
COPY requirements requirements
RUN pip wheel --require-hashes --no-deps --wheel-dir /wheels -r requirements/run.lock
RUN pip install --require-hashes --no-deps -r requirements/run.lock && pip install --require-hashes --no-deps -r requirements/build.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY cluster cluster
COPY spark spark
COPY iot_mqtt iot_mqtt
RUN IOT_MQTT_BUILD=require pip wheel --no-build-isolation --no-deps --wheel-dir /wheels .

FROM wheels AS pipeline-wheels
RUN pip wheel --no-build-isolation --require-hashes --no-deps --wheel-dir /pipeline -r requirements/pipeline.lock

FROM maven:3.9.9-eclipse-temurin-17 AS jars
WORKDIR /src
COPY spark spark
RUN mvn -q -B -f spark/pom.xml package

FROM python:3.11.11-slim-bookworm AS base
RUN groupadd --gid 10001 iot-mqtt \
    && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin iot-mqtt \
    && install -d -o iot-mqtt -g iot-mqtt -m 0750 /data
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    pip install --no-index --no-cache-dir --no-deps /wheels/*.whl
WORKDIR /data
VOLUME /data
ENV PYTHONUNBUFFERED=1 \
    IOT_MQTT__NODE__DATA_DIR=/data \
    IOT_MQTT__LOG__FORMAT=json
STOPSIGNAL SIGTERM
ENTRYPOINT ["iot-mqtt"]

FROM base AS pipeline
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=pipeline-wheels,source=/pipeline,target=/wheels \
    pip install --no-index --no-cache-dir --no-deps /wheels/*.whl
COPY --from=jars /src/spark /opt/iot-mqtt/spark
ENV IOT_MQTT_SPARK_DIR=/opt/iot-mqtt/spark
USER 10001:10001
CMD ["pipeline", "run", "clean"]

FROM base AS broker
USER 10001:10001
# MQTT and MQTT over WebSocket, each also in TLS, frames of gateways, and the admin port.
EXPOSE 1883 8883 8083 8084 9600 18083
# Clients are told to go, and what is under way is finished, within node.drain_seconds of SIGTERM.
CMD ["serve"]
