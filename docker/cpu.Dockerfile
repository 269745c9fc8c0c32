# fxmorph on a CPU.  From the root of the repository:
#   docker build -f docker/cpu.Dockerfile --build-arg VERSION=0.1.0 -t fxmorph .
#   docker run --rm -v "$PWD:/work" fxmorph check model.py:Net
FROM python:3.12-slim

# Inductor compiles its kernels with g++.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

# The build has no tags to tell the version from.
ARG VERSION=0.0
COPY . /src
RUN SETUPTOOLS_SCM_PRETEND_VERSION_FOR_FXMORPH="$VERSION" \
    pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -c /src/constraints.txt /src \
    && rm -rf /src

WORKDIR /work
ENTRYPOINT ["fxmorph"]
CMD ["--help"]
