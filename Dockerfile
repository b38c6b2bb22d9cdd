# Workers and projectors of mulligan, built from a checkout with the locked packages.
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/mulligan
# The locked packages are a layer of their own: a change of our code does not fetch them again.
COPY requirements.lock ./
RUN /opt/mulligan/bin/pip install --no-cache-dir --no-deps --require-hashes --requirement requirements.lock
COPY . .
RUN /opt/mulligan/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 mulligan
COPY --from=build /opt/mulligan /opt/mulligan
ENV PATH=/opt/mulligan/bin:$PATH PYTHONUNBUFFERED=1
# Where workflows and the modules they name are mounted; the current folder is importable.
WORKDIR /app
RUN install --directory --owner=mulligan --group=mulligan /app /data
USER mulligan
ENV MULLIGAN_DATA_DIR=/data
VOLUME /data
ENTRYPOINT ["mulligan"]
CMD ["worker"]
