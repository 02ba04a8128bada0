"""The judgement: evidence lock, statistics, checks, isolation, rollback drill, decision. Pure."""
