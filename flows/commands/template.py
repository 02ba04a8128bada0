"""The candidate file that `tilegate init` writes. Each key says what it is; every default is written out."""

TEMPLATE = """\
# A candidate file: two releases (sides) of an accelerator stack, judged on the same models and the same traffic.
#   tilegate run FILE       the verdict and the report
#   tilegate replay FILE    latency tails of both sides, without a verdict
#   tilegate schema candidate   every key, its type and its range
# Paths are relative to this file.
schema: tilegate/v1
name: {name:<26} # names the run, its folder and its history
description: ""
target: {target:<24} # a built-in target, or the path of a target file
model_only: true                 # no profile was measured: accept a verdict on modelled and replayed evidence alone
declared_changes: []             # software tags that the candidate means to change: compiler, runtime, driver, firmware

workloads:
  - name: {workload}
    model: {model}
    # inputs of the model: {inputs}
    weight: 1.0                  # share of the traffic, relative to the other workloads
    batch_dim: {batch_dim:<17} # symbolic dim that batching fills; null: requests run one at a time
    size_dim: {size_dim:<18} # symbolic dim that the size of a request is; null: all requests are alike
    buckets:                     # shapes that plans are made for; a request takes the smallest bucket that holds it
      - name: default
        shapes: {shapes}
    quality_shapes: {{}}           # smaller shapes for the numeric check, where these are too large to run

traffic:                         # or `file: {{path: trace.csv}}` for recorded traffic
  generate:
    kind: poisson                # poisson, bursty or steady
    rate_per_s: {rate:<16} # placeholder: {rate_is}
    duration_s: {duration}
    sizes: {sizes:<21} # size of a request: relative weight
    streams: [default]
  seed: 1
  max_requests: 20000            # of one replication
  warmup_share: 0.05             # of each replication's first requests, left out of the statistics

# PLACEHOLDERS: the versions in `tags` and all of `conditions` are made up, for both sides. Replace them by those of
# your machines: sides that differ in hardware, conditions or undeclared tags end in HOLD.
comparator:                      # the stable release
  name: stable
  tags: {{compiler: "1.0", runtime: "1.0", driver: "1.0", firmware: "1.0", hardware: {hardware}}}  # placeholders
  # placeholders: what was set or measured on the machine
  conditions: {{clock_mhz: 1000, temperature_c: 50, power_w: 100, throttling: false}}
  settings:                      # what each stage does; a stage that is left out has its defaults
    fusion: {{policy: pattern}}    # none, pattern, aggressive or optimal
    tiling: {{cores: 0}}           # cores that one kernel spreads over; 0: all of the target
    execution: {{launch_mode: host}}
    scheduling: {{max_batch: 1, max_wait_us: 0}}

candidate:                       # the release that wants to replace it: change here what it changes
  name: next
  tags: {{compiler: "1.0", runtime: "1.0", driver: "1.0", firmware: "1.0", hardware: {hardware}}}  # placeholders
  # placeholders, as above
  conditions: {{clock_mhz: 1000, temperature_c: 50, power_w: 100, throttling: false}}
  settings:
    fusion: {{policy: pattern}}
    tiling: {{cores: 0}}
    execution: {{launch_mode: host}}
    scheduling: {{max_batch: 1, max_wait_us: 0}}

policy:
  confidence: 0.95
  replications: 8                # of the traffic, each with its own seed, the same on both sides
  owners: {{}}                     # who holds each role, e.g. {{kernel_performance_owner: team-kernels@example.com}}
  rollback: {{window_s: {window}, min_samples: {min_samples}, tolerance: 0.05}}
  # checks, ownership and waivers have defaults: see `tilegate schema policy`
"""
