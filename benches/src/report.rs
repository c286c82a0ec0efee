//! docs/benchmarks.md.
