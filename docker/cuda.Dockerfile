# fxmorph on NVIDIA GPUs.  From the root of the repository:
#   docker build -f docker/cuda.Dockerfile --build-arg VERSION=0.1.0 -t fxmorph-cuda .
#   docker run --rm --gpus all -v "$PWD:/work" fxmorph-cuda check model.py:Net --device cuda
FROM python:3.12-slim

# The driver comes from the host, the CUDA libraries with torch's own wheels.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

# Inductor compiles kernels for the CPU with g++, and Triton its launchers with gcc.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc g++ \
    && rm -rf /var/lib/apt/lists/*

# The build has no tags to tell the version from.
ARG VERSION=0.0
COPY . /src
RUN SETUPTOOLS_SCM_PRETEND_VERSION_FOR_FXMORPH="$VERSION" \
    pip install --no-cache-dir -c /src/constraints.txt /src \
    && rm -rf /src

WORKDIR /work
ENTRYPOINT ["fxmorph"]
CMD ["--help"]
