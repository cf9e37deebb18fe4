# The main job on a CPU, as `docker build -t oretro . && docker run --rm -v "$PWD/runs:/work/runs" oretro`.
# PIP_ARGS takes options for pip, such as the index of torch's smaller CPU builds.
FROM python:3.12-slim

ARG PIP_ARGS=""
WORKDIR /oretro
COPY . .
RUN python -m pip install --no-cache-dir --constraint constraints.txt ${PIP_ARGS} ".[data,plots]"

RUN useradd --create-home oretro && mkdir -p /work/runs && chown -R oretro /work
USER oretro
WORKDIR /work
ENTRYPOINT ["oretro"]
CMD ["eval"]
