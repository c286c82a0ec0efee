//! The terms under which a process counts a limiter without reconciling its configuration.

use std::sync::Arc;

use ratelimit_spec::Mode;

use crate::store::Config;

/// A lease to count a limiter without reconciling again, until it expires.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) terms: Arc<Terms>,
    /// When the configuration is reconciled again.
    pub(crate) until_ms: u64,
}

/// A configuration to count by, shared by all limiters that use it.
#[derive(Debug)]
pub(crate) struct Terms {
    /// The rule that the configuration belongs to; see [`Rule`](crate::limiter).
    pub(super) rule: u64,
    /// The number of the limiter's family.
    family: u32,
    /// The generation of the limits.
    generation: u64,
    pub(super) config: Config,
    /// Whether the configuration is this process's own, so that the store may treat it as announced again.
    pub(super) announces: bool,
    pub(super) rejects: Rejects,
    /// Milliseconds that a limiter is kept after a grant that left nothing owed; `None` is forever.
    pub(super) idle_ms: Option<u64>,
}

/// Whether a call is rejected at once if its permits are not free: no call waits, and shadow mode admits none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rejects {
    pub(crate) calls: bool,
    /// The same for requests to a layer.
    pub(crate) requests: bool,
}

impl Terms {
    pub(crate) fn new(
        (rule, family): (u64, u32),
        generation: u64,
        config: Config,
        announces: bool,
        rejects: Rejects,
    ) -> Self {
        let kept = (config.keep_alive_ms > 0).then_some(config.keep_alive_ms);
        let idle_ms = kept.map(|kept| kept.max(config.counts_for_ms()));
        Self { rule, family, generation, config, announces, rejects, idle_ms }
    }

    /// Returns whether this caller may count by them.
    #[inline]
    pub(super) fn allow(&self, whose: Whose) -> bool {
        let Self { rule, family, generation, .. } = *self;
        let same =
            whose == Whose::rule(rule, generation) || whose == Whose::family(family, generation);
        same && self.config.mode == Mode::Overall
    }

    /// Returns whether this is the given configuration of this family.
    pub(crate) fn is(&self, family: u32, config: &Config) -> bool {
        self.family == family && self.config == *config
    }
}

/// The configuration that a caller uses in one generation of the limits: that of its rule, or the one that the limiter was
/// last counted with if that is of its family. One word, which differs for all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose(pub(super) u64);

impl Whose {
    #[inline]
    pub(crate) const fn rule(rule: u64, generation: u64) -> Self {
        Self(rule << 1 ^ generation << 40)
    }

    #[inline]
    pub(crate) const fn family(family: u32, generation: u64) -> Self {
        Self((family as u64) << 1 ^ generation << 40 | 1)
    }
}
