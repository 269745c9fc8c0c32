# fxmorph on NVIDIA GPUs.  From the root of the repository:
#   docker build -f docker/cuda.Dockerfile -t fxmorph-cuda .
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

COPY . /src
RUN pip install --no-cache-dir -c /src/constraints.txt /src \
    && rm -rf /src

WORKDIR /work
ENTRYPOINT ["fxmorph"]
CMD ["--help"]
