# docker build -f deploy/docker/cpu.Dockerfile -t mnserve:0.1.0-cpu .
# docker run --read-only --tmpfs /tmp -v $PWD/repository:/models:ro -p 127.0.0.1:8001:8001 mnserve:0.1.0-cpu

FROM python:3.13.9-slim-bookworm AS build
# Extras, such as one more for object storage.
ARG EXTRAS=serve
WORKDIR /source
# What is installed from elsewhere, in a layer that changes of the sources leave alone.
COPY pyproject.toml constraints.txt deploy/docker/requirements.py ./
RUN python requirements.py "${EXTRAS}" > requirements.txt \
    && python -m venv --without-pip /opt/mnserve \
    && pip --python /opt/mnserve/bin/python install --no-cache-dir --only-binary=:all: \
        --constraint constraints.txt --requirement requirements.txt
COPY README.md LICENSE NOTICE ./
COPY mntrain/ mntrain/
COPY mnexport/ mnexport/
COPY mnserve/ mnserve/
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && pip --python /opt/mnserve/bin/python install --no-cache-dir --no-deps /wheels/*.whl

FROM python:3.13.9-slim-bookworm
LABEL org.opencontainers.image.title="mnserve" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.licenses="Apache-2.0 AND BSD-3-Clause AND 0BSD"
COPY --from=build /opt/mnserve /opt/mnserve
# The root may be read-only; what is cached, such as models from object storage, goes to /tmp.
ENV PATH=/opt/mnserve/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8001 8002
# With TLS or another port, tell it by -e MNSERVE_HEALTH_URL=grpcs://localhost:8001 -e MNSERVE_HEALTH_TLS_CA=/run/ca.crt.
HEALTHCHECK --interval=30s --timeout=10s --start-period=1h --retries=3 CMD ["mnserve", "health"]
ENTRYPOINT ["mnserve"]
CMD ["serve", "/models", "--host", "0.0.0.0"]
