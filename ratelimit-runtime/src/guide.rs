//! Guides: longer chapters on topics that span several types.
//!
//! The pages are those of the repository's `docs`, where their links lead to files. Here `links.md`
//! precedes each page, and the first definition of a link applies.

/// The algorithms: what each admits, and how to choose.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/algorithms.md")]
///
/// # Plot
///
#[doc = include_str!("../docs/algorithms.svg")]
pub mod algorithms {}

/// Layers, call path, invariants, and the format of the state.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/architecture.md")]
pub mod architecture {}

/// A rate-limited web service from scratch.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/web.md")]
pub mod web {}

/// Coming from governor, `tower_governor`, Redisson or Redis scripts.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/migration.md")]
pub mod migration {}

/// The metrics, and which of them to watch.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/metrics.md")]
pub mod metrics {}

/// Outages: decisions while Redis is slow or unavailable.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/outages.md")]
pub mod outages {}

/// Penalties: keys that are rejected repeatedly are blocked.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/penalties.md")]
pub mod penalties {}

/// Sharing limiters with Java services, method by method.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/redisson.md")]
pub mod redisson {}

/// Several limits for one key.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/several-limits.md")]
pub mod several_limits {}

/// Shards: one very busy limiter on several nodes of a cluster.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/shards.md")]
pub mod shards {}

/// Shadow mode: trying out a limit before enforcing it.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/shadow.md")]
pub mod shadow {}

/// Refunds, and charges for costs known only afterwards.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/settlement.md")]
pub mod settlement {}

/// Reconciliation of the configured and the stored settings.
///
#[doc = include_str!("guide/links.md")]
#[doc = include_str!("../docs/reconciliation.md")]
pub mod reconciliation {}

/// The cost of a decision, compared with other rate limiters.
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
