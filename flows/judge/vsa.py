"""The verdict as an in-toto statement with the SLSA verification summary predicate (slsa.dev/verification_summary/v1).

Unsigned: what is returned is the statement, without an envelope. It is evidence of what was concluded, not of who did.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from schemas.decision import Decision, Run

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/verification_summary/v1"
VERIFIER = "urn:tilegate:release-gate"
SLSA_VERSION = "1.0"


def verification_summary(run: Run, decision: Decision, policy_sha256: str, verified: datetime) -> dict[str, Any]:
    """The statement as plain values, ready for JSON.

    subject: the candidate file, which the lock must name. verificationResult is PASSED only for GO; no SLSA level is
    claimed. inputAttestations: every input and artifact by digest. policy_sha256: digest of the policy as it was used.
    verified: when the verdict was reached.
    """
    return {
        "_type": STATEMENT_TYPE,
        "subject": [_subject(run)],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "verifier": {"id": VERIFIER, "version": dict(run.versions)},
            "timeVerified": verified.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "resourceUri": f"urn:tilegate:candidate:{run.candidate_name}",
            "policy": {"uri": f"urn:tilegate:policy:{run.run_id}", "digest": {"sha256": policy_sha256}},
            "inputAttestations": [
                {"uri": f"urn:tilegate:{item_kind}:{name}", "digest": {"sha256": sha256}}
                for item_kind, name, sha256 in _digests(run)
            ],
            "verificationResult": "PASSED" if decision.verdict == "GO" else "FAILED",
            "verifiedLevels": [],
            "slsaVersion": SLSA_VERSION,
            "https://tilegate/verdict": decision.verdict,
            "https://tilegate/signed": False,
        },
    }


def _subject(run: Run) -> dict[str, Any]:
    for item in run.inputs:
        if item.role == "candidate":
            return {"name": run.candidate_name, "digest": {"sha256": item.sha256}}
    raise ValueError(f"run {run.run_id}: its lock names no input of the role candidate, so nothing can be attested")


def _digests(run: Run) -> list[tuple[str, str, str]]:
    inputs = [("input", item.role, item.sha256) for item in run.inputs]
    return inputs + [("artifact", item.name, item.sha256) for item in run.artifacts]
