# fxmorph on a CPU.  From the root of the repository:
#   docker build -f docker/cpu.Dockerfile -t fxmorph .
#   docker run --rm -v "$PWD:/work" fxmorph check model.py:Net
FROM python:3.12-slim

# Inductor compiles its kernels with g++.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

COPY . /src
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -c /src/constraints.txt /src \
    && rm -rf /src

WORKDIR /work
ENTRYPOINT ["fxmorph"]
CMD ["--help"]
