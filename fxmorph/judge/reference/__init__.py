"""The reference run: fp64 and perturbed lanes beside the native program."""
