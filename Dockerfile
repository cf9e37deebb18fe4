# The main job on a CPU; docs/quick-start.md has the two commands.
# PIP_ARGS takes options for pip, such as the index of torch's smaller CPU builds.
FROM python:3.12-slim

ARG PIP_ARGS=""
WORKDIR /oretro
COPY . .
RUN python -m pip install --no-cache-dir --constraint constraints.txt ${PIP_ARGS} ".[data,plots]"

# Whoever the container runs as can write here: a mounted runs/ belongs to the user outside.
RUN useradd oretro && mkdir -p /work/runs && chmod -R a+rwX /work
ENV HOME=/work USER=oretro
USER oretro
WORKDIR /work
ENTRYPOINT ["oretro"]
CMD ["eval"]
