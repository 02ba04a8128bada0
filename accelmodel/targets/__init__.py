"""One YAML file an accelerator."""
