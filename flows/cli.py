"""The command line. Each command imports what it needs when it runs, so that `tilegate --help` answers at once.

Exit codes: 0 GO, 1 NO_GO, 2 HOLD, 3 invalid input, 4 internal error.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

INVALID_INPUT, INTERNAL_ERROR, INTERRUPTED = 3, 4, 130
_USAGE_ERROR = 2  # what typer exits with; HOLD has that number here

app = typer.Typer(
    name="tilegate", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="May this candidate replace the stable comparator, and if not, which execution mechanism failed first?",
    epilog="Exit codes: 0 GO, 1 NO_GO, 2 HOLD, 3 invalid input, 4 internal error.",
)  # fmt: skip

CandidateFile = Annotated[Path, typer.Argument(metavar="CANDIDATE.yaml", help="Candidate file (see `tilegate init`).")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="ONNX model.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="Run id, the start of one, or a run's folder.")]
StoreFolder = Annotated[
    Path | None, typer.Option("--store", metavar="DIR", help="Evidence store; else $TILEGATE_STORE, else ./runs.")
]
TargetName = Annotated[
    str, typer.Option("--target", "-t", metavar="NAME", help="Built-in target, or path of a target file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of words.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict only.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", "-s", metavar="DIM=SIZE", help="Size of a symbolic dim; may be given several times."),
]
Policy = Annotated[
    Literal["none", "pattern", "optimal", "aggressive"], typer.Option("--policy", "-p", help="Fusion policy.")
]


class Finished(Exception):  # noqa: N818  (no error)
    """A command ended with this exit code; typer knows no exit code 2 that is not a usage error."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version as installed

        print(f"tilegate {installed('tilegate')}")
        raise Finished(0)


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of `tilegate` itself."""


@app.command(rich_help_panel="Judge")
def run(
    candidate: CandidateFile,
    store: StoreFolder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    timings: Annotated[bool, typer.Option("--timings", help="Print where the time went.")] = False,
) -> None:
    """Take a candidate through every stage to a verdict and a report. The same command resumes a run."""
    from flows.commands.run import run_candidate

    raise Finished(run_candidate(candidate, store, as_json=as_json, quiet=quiet, timings=timings))


@app.command(rich_help_panel="Judge")
def demo(
    only: Annotated[Literal["failing", "fixed"] | None, typer.Option("--only", help="One of the two runs.")] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for inputs and runs.")] = Path("demo-out"),
) -> None:
    """The case study: a candidate that is NO_GO, then its bounded fix that is GO."""
    from flows.demo import run_demo

    raise Finished(run_demo(only=only, out=out))


@app.command(rich_help_panel="Judge")
def report(run_name: RunName, store: StoreFolder = None) -> None:
    """Render a run's report again from its evidence."""
    from flows.commands.evidence import render_again

    raise Finished(render_again(run_name, store))


@app.command(rich_help_panel="Judge")
def verify(run_name: RunName, store: StoreFolder = None, as_json: AsJson = False) -> None:
    """Check digests and schemas of a run, and the digests of its inputs."""
    from flows.commands.evidence import verify_again

    raise Finished(verify_again(run_name, store, as_json=as_json))


@app.command(rich_help_panel="Look closer")
def plan(
    model: ModelFile,
    target: TargetName,
    shape: Shapes = None,
    policy: Policy = "pattern",
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, help="Only the N kernels that take longest.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the fusion and tile-plan worksheet and the primary metrics of a model."""
    from flows.commands.plan import plan_model

    raise Finished(plan_model(model, target, shape or [], policy, top=top, as_json=as_json))


@app.command(rich_help_panel="Look closer")
def replay(
    candidate: CandidateFile,
    with_capacity: Annotated[
        bool, typer.Option("--capacity", help="Also find the highest rates that each side can take.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Replay the traffic on both sides: tails and what they are made of. Judges nothing, writes nothing."""
    from flows.commands.replay import replay_candidate

    raise Finished(replay_candidate(candidate, as_json=as_json, with_capacity=with_capacity))


@app.command(rich_help_panel="Look closer")
def profile(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Kineto, Nsight, ONNX Runtime profile, or a table of one.")
    ],
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FILE", help="Earlier profile of the same work.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what a profile measured: launches, idle time, kernels; with --against, what changed."""
    from flows.commands.profile import profile_command

    raise Finished(profile_command(file, against, as_json=as_json))


@app.command(rich_help_panel="Set up")
def init(
    model: ModelFile,
    target: TargetName,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")] = Path(
        "candidate.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented candidate file for a model and a target, with the shapes it found."""
    from flows.commands.init import write_candidate

    raise Finished(write_candidate(model, target, output, force=force))


@app.command(rich_help_panel="Set up")
def schema(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Document or table; none lists them.")] = None,
) -> None:
    """Print the JSON schema of a document, or the columns of a table."""
    from flows.commands.schema import print_schema

    raise Finished(print_schema(name))


@app.command(rich_help_panel="Serve")
def up(
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of the Prefect server.")] = 4200,
    store: StoreFolder = None,
    nightly: Annotated[
        Path | None, typer.Option("--nightly", metavar="CANDIDATE.yaml", help="Candidate file of the nightly run.")
    ] = None,
) -> None:
    """Start Prefect's server and a worker on this machine and deploy `nightly` and `per-candidate`. Ctrl-C ends all."""
    from flows.deploy import serve_here

    raise Finished(serve_here(port, store, nightly))


@app.command(rich_help_panel="Serve")
def announce(
    candidate: CandidateFile,
    api: Annotated[
        str | None,
        typer.Option(
            "--api", metavar="URL", help="Prefect API; else $PREFECT_API_URL, else http://127.0.0.1:4200/api."
        ),
    ] = None,
) -> None:
    """Tell the server of a candidate: the event starts the deployment `per-candidate`."""
    from flows.deploy import announce_candidate

    raise Finished(announce_candidate(candidate, api))


@app.command(rich_help_panel="Set up")
def version(as_json: AsJson = False) -> None:
    """Print the versions of tilegate and of the libraries that results depend on."""
    from flows.commands.schema import print_versions

    raise Finished(print_versions(as_json=as_json))


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and give its exit code."""
    try:
        app(args=arguments, prog_name="tilegate")
    except Finished as finished:
        return finished.code
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            print("interrupted: the same command takes it up again", file=sys.stderr)
        return INVALID_INPUT if ended.code == _USAGE_ERROR else int(ended.code or 0)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read the output has gone
        return 0
    except Exception as error:
        from flows.commands.failure import explain

        return explain(error, arguments if arguments is not None else sys.argv[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
