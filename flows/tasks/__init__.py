"""One thin task a stage: fetch what came before, call the stage, keep what it made."""
