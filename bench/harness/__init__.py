"""What the benchmarks of bench/ share."""
