# Slipstream in a container: one file, two images (docker-compose.yml builds both).
#   web and CPU worker: BASE_IMAGE is a plain Python; it plays recorded races and races servers by URL.
#   GPU worker:         BASE_IMAGE is an engine's own image with Python 3.11+, so the engine is on its PATH.
# Slipstream lives in a virtual environment of its own; the engine's packages stay untouched.
ARG BASE_IMAGE=python:3.13-slim

FROM ${BASE_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
# pip of the base image installs into the environment from outside: some engine images lack ensurepip.
RUN python3 -m venv --without-pip /opt/slipstream
COPY requirements.lock ./
RUN python3 -m pip --python /opt/slipstream/bin/python install \
      --require-hashes --only-binary :all: -r requirements.lock
COPY . .
RUN python3 -m pip --python /opt/slipstream/bin/python install --no-deps --no-build-isolation .

FROM ${BASE_IMAGE} AS run
ENV PATH=/opt/slipstream/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/data \
    SLIPSTREAM_DATA_DIR=/data
RUN groupadd --gid 10001 slipstream \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin slipstream \
 && install -d -o slipstream -g slipstream -m 0750 /data
COPY --from=build /opt/slipstream /opt/slipstream
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8321
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
    CMD ["/opt/slipstream/bin/python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8321/api/v1/health', timeout=2)"]
ENTRYPOINT ["/opt/slipstream/bin/slipstream"]
CMD ["--help"]
