"""What is measured, not asserted: `make bench` runs every bench_*.py here."""
