//! The cost of a decision, compared with our peers, over one Redis.
//!
//! - [`peers`]: the rate limiters that are compared.
//! - [`load`]: how they are called.
//! - [`sample`], [`cost`]: the cost of the calls for the callers, and for Redis.
//! - [`workloads`]: which peers each workload calls, and how often.
//! - [`results`]: the figures in `target/bench`.
//! - [`embedded`]: limiters for what is measured within the process.
//! - [`criterion`], [`memory`]: what was measured of them.
//! - [`growth`]: what many keys take in memory, and for how long.
//! - [`scripts`]: what Redis takes for them, in time and in memory.
//! - [`report`]: docs/benchmarks.md, made of them.
#![allow(clippy::disallowed_methods, reason = "benches measure real time")]

pub mod cost;
pub mod criterion;
pub mod embedded;
pub mod growth;
pub mod load;
pub mod memory;
pub mod peers;
pub mod report;
pub mod results;
pub mod sample;
pub mod scripts;
pub mod workloads;
