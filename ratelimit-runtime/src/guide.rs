//! What is too long for a page of its own type.
//!
//! The pages are those of the repository's `docs`, where their links lead to files. Here `links.md` stands before
//! each page, and the first definition of a link applies.

/// The rules: what each admits, and when to take which.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/algorithms.md")]
///
/// # Plot
///
#[doc = include_str!("../docs/algorithms.svg")]
pub mod algorithms {}

/// Floors, call path, invariants, and the format of the state.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/architecture.md")]
pub mod architecture {}

/// A web service from zero.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/web.md")]
pub mod web {}

/// What is measured, and what to watch.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/metrics.md")]
pub mod metrics {}

/// When Redis is slow or gone.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/outages.md")]
pub mod outages {}

/// Keys that are refused again and again are blocked.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/penalties.md")]
pub mod penalties {}

/// Sharing limiters with Java services, method by method.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/redisson.md")]
pub mod redisson {}

/// More than one rate for one key.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/several-limits.md")]
pub mod several_limits {}

/// One very hot limiter on several nodes of a cluster.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/shards.md")]
pub mod shards {}

/// Limits that are tried out before they refuse anybody.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/shadow.md")]
pub mod shadow {}

/// What is known of a call only when it is over: refunds and charges.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/settlement.md")]
pub mod settlement {}

/// When configured and stored numbers differ.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/reconciliation.md")]
pub mod reconciliation {}

/// What a decision costs, beside peers.
#[allow(clippy::doc_markdown, reason = "it is written from what programs print")]
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/benchmarks.md")]
///
/// # Chart
///
#[doc = include_str!("../docs/benchmarks.svg")]
///
/// # Plot of the memory
///
#[doc = include_str!("../docs/memory.svg")]
pub mod benchmarks {}

/// The package's own page compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
