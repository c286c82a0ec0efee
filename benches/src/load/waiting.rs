//! Callers that wait without a limit.

use std::{collections::BTreeSet, time::Duration};

/// A caller that got its permit.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// Its position in the order of arrival.
    pub caller: usize,
    /// When it was granted, from the start.
    pub at: Duration,
}

/// The grants of a stretch of time, in the order in which they were given.
#[derive(Debug)]
pub struct Waits(pub Vec<Grant>);

impl Waits {
    /// Reads what a driver in another process wrote: `CALLER:NANOS` of each grant.
    pub fn parse(text: &str) -> Option<Self> {
        let grants = text.split(' ').map(|word| {
            let (caller, nanos) = word.split_once(':')?;
            let at = Duration::from_nanos(nanos.parse().ok()?);
            Some(Grant { caller: caller.parse().ok()?, at })
        });
        grants.collect::<Option<_>>().map(Self)
    }

    pub fn grants(&self) -> usize {
        self.0.len()
    }

    /// Grants as a share of what the limit would have allowed, the first full window aside.
    pub fn share(&self, rate: u32, per: Duration) -> f64 {
        let Some(last) = self.0.last() else { return 0.0 };
        let later = self.0.len().saturating_sub(rate as usize) as f64;
        let windows = last.at.as_secs_f64() / per.as_secs_f64();
        later / (windows * f64::from(rate))
    }

    /// Returns the number of grants to callers that arrived after one that was still waiting.
    pub fn overtakings(&self) -> usize {
        let mut waiting: BTreeSet<usize> = (0..=self.most()).collect();
        let overtakes = |grant: &&Grant| {
            waiting.remove(&grant.caller);
            waiting.first().is_some_and(|first| *first < grant.caller)
        };
        self.0.iter().filter(overtakes).count()
    }

    fn most(&self) -> usize {
        self.0.iter().map(|grant| grant.caller).max().unwrap_or(0)
    }
}
