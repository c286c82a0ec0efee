//! Costs that are known only afterwards: permits that are not free then become debt, which is paid
//! before anything else is granted.

use super::{
    Config, State, Verdict,
    meter::{Meter, Owing},
    open::{Form, Open, Sheet},
};

/// A cost that is known only afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The permits to take.
    pub permits: u32,
    /// The greatest debt, in all; the capacity of the active configuration if `None`.
    pub max_debt: Option<u64>,
    /// With an id, Redis makes the charge once, so it can be repeated if the reply is lost.
    pub id: Option<u64>,
}

impl Charge {
    /// A charge that is made as often as it is sent.
    #[must_use]
    pub fn new(permits: u32, max_debt: Option<u64>) -> Self {
        Self { permits, max_debt, id: None }
    }
}

/// The result of a charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// Permits that were free.
    pub taken: u64,
    /// Permits that are owed now, in all.
    pub debt: u64,
    /// Permits above the greatest debt, which are written off.
    pub excess: u64,
}

impl State {
    /// Takes the free permits and adds the rest to the debt, up to `max_debt` in total. The verdict
    /// is that on one further permit.
    pub(crate) fn charge(
        &mut self,
        config: &Config,
        permits: u64,
        max_debt: u64,
        now: u64,
    ) -> (Charged, Verdict) {
        let max_debt = if config.rate > 0 { max_debt } else { 0 };
        let mut open = self.open(config, std::iter::once(1), now);
        let charged = open.charge(permits, max_debt);
        let verdict = Verdict { granted: true, ahead: open.ahead(), ..open.look(1) };
        open.close(now);
        (charged, verdict)
    }

    /// The milliseconds until no used or owed permit counts any more, if debt can make that longer
    /// than the configuration alone.
    pub(crate) fn lasts_ms(&self, config: &Config, now: u64) -> u64 {
        let debt = match self {
            Self::Log(log) => log.debt(),
            Self::Window(window) => window.debt(),
            Self::Bucket(bucket) => return bucket.lasts_ms(now),
            Self::Warm(warm) => return warm.lasts_ms(now),
        };
        if debt == 0 {
            return 0;
        }
        let windows = debt.div_ceil(config.rate.max(1));
        windows.saturating_mul(config.per_ms).saturating_add(config.counts_for_ms())
    }
}

impl Open<'_> {
    fn charge(&mut self, permits: u64, max_debt: u64) -> Charged {
        match &mut self.0 {
            Form::Log(log) => charge(log, permits, max_debt),
            Form::Bucket(sheet, _) => sheet.charge(permits, max_debt),
            Form::Warm(sheet, _) => sheet.charge(permits, max_debt),
            Form::Window(sheet, _) => sheet.charge(permits, max_debt),
            Form::Nothing => Charged { excess: permits, ..Charged::default() },
        }
    }
}

impl<M: Owing> Sheet<M> {
    fn charge(&mut self, permits: u64, max_debt: u64) -> Charged {
        let charged = charge(&mut self.meter, permits, max_debt);
        self.changed |= charged.excess < permits;
        charged
    }
}

/// Takes the free permits and adds the rest to the debt, up to `max_debt` in total.
fn charge(meter: &mut impl Owing, permits: u64, max_debt: u64) -> Charged {
    let (debt, taken) = (meter.debt(), permits.min(meter.room()));
    if taken > 0 {
        meter.take(taken);
    }
    let owed = (permits - taken).min(max_debt.saturating_sub(debt)).min(meter.most_owed());
    if owed > 0 {
        meter.owe(owed);
    }
    Charged { taken, debt: debt.saturating_add(owed), excess: permits - taken - owed }
}

#[cfg(test)]
mod tests {
    use ratelimit_spec::{Algorithm, Mode};

    use super::*;

    const RULES: [Algorithm; 4] = [
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ];

    fn ten_a_second(algorithm: Algorithm) -> Config {
        Config::new(10, 1000, Mode::Overall).rule(algorithm.rule(10))
    }

    #[test]
    fn what_is_not_free_is_owed_and_paid_before_anything_is_granted() {
        // One permit used and 15 charged: the time until one more is free, and until all are.
        for (algorithm, next, full) in [
            (Algorithm::SlidingWindow, 1000, 2000),
            (Algorithm::FixedWindow, 1000, 2000),
            (Algorithm::TokenBucket, 700, 1600),
            (Algorithm::LeakyBucket, 1600, 1600),
        ] {
            let (config, mut state) = (ten_a_second(algorithm), State::default());
            assert!(state.acquire(&config, 1, 5000).granted);
            let (charged, v) = state.charge(&config, 15, 10, 5000);
            assert_eq!(charged, Charged { taken: 9, debt: 6, excess: 0 }, "{algorithm}");
            assert_eq!((v.remaining, v.retry_after, v.reset_after), (0, next, full), "{algorithm}");
            assert_eq!(state.peek(&config, 1, 5000).retry_after, next, "{algorithm}");
            let (more, _) = state.charge(&config, 10, 10, 5000);
            assert_eq!(more, Charged { taken: 0, debt: 10, excess: 6 }, "{algorithm}");
            assert_eq!(state.release(&config, 4, 5000), 4, "{algorithm}");
            let v = state.acquire(&config, 1, 5000);
            assert_eq!((v.granted, v.retry_after), (false, next), "{algorithm}");
            assert!(!state.acquire(&config, 1, 5000 + next - 1).granted, "{algorithm}");
            assert!(state.acquire(&config, 1, 5000 + next).granted, "{algorithm}");
        }
    }

    #[test]
    fn a_debt_above_the_rate_is_paid_window_by_window() {
        for algorithm in [Algorithm::SlidingWindow, Algorithm::FixedWindow] {
            let (config, mut state) = (ten_a_second(algorithm), State::default());
            let (charged, _) = state.charge(&config, 33, 25, 5000);
            assert_eq!(charged, Charged { taken: 10, debt: 23, excess: 0 });
            let v = state.acquire(&config, 1, 5000);
            assert_eq!(
                (v.granted, v.retry_after, v.reset_after),
                (false, 3000, 4000),
                "{algorithm}"
            );
            assert!(!state.acquire(&config, 1, 6000).granted);
            assert!(!state.acquire(&config, 1, 7999).granted);
            let v = state.acquire(&config, 1, 8000);
            assert_eq!((v.granted, v.remaining), (true, 6), "{algorithm}");
        }
    }

    #[test]
    fn a_debt_is_paid_while_nobody_calls() {
        for (rule, at) in RULES.iter().flat_map(|rule| [8500, 9000, 60_000].map(|at| (*rule, at))) {
            let (config, mut state) = (ten_a_second(rule), State::default());
            state.charge(&config, 33, 25, 5000);
            let free = state.peek(&config, 1, at).remaining;
            assert_eq!(state.acquire(&config, free, at).remaining, 0, "{rule} at {at}");
            assert!(if at == 8500 { free > 0 } else { free == 10 }, "{rule} at {at}: {free}");
        }
    }

    #[test]
    fn a_refusal_tells_the_exact_wait_for_a_debt_of_several_windows() {
        for algorithm in [Algorithm::SlidingWindow, Algorithm::FixedWindow] {
            let (config, mut state) = (ten_a_second(algorithm), State::default());
            for at in [5000, 5100, 5250, 5300] {
                assert!(state.acquire(&config, 2, at).granted);
            }
            state.charge(&config, 40, 100, 5400);
            for now in [5401, 6099, 6300, 7250, 8301] {
                for permits in [1, 3, 10] {
                    let wait = state.peek(&config, permits, now).retry_after;
                    let granted = |at: u64| state.clone().acquire(&config, permits, at).granted;
                    assert!(granted(now + wait), "{algorithm}: {permits} at {now} after {wait}");
                    assert!(!granted(now + wait - 1), "{algorithm}: {permits} at {now}");
                }
                state.acquire(&config, 10, now);
            }
        }
    }

    #[test]
    fn a_debt_goes_along_when_the_rule_changes() {
        for (from, to) in RULES.iter().flat_map(|from| RULES.map(|to| (*from, to))) {
            let (from, to) = (ten_a_second(from), ten_a_second(to));
            let mut state = State::default();
            state.charge(&from, 25, 30, 5000);
            let (charged, v) = state.charge(&to, 1, 30, 5000);
            assert_eq!((charged.taken, charged.debt), (0, 16), "{from:?} to {to:?}");
            assert_eq!(v.remaining, 0);
            assert_eq!(state.release(&to, 99, 5000), 26, "{from:?} to {to:?}");
        }
    }

    #[test]
    fn who_reserved_is_no_debt() {
        let (config, mut state) = (ten_a_second(Algorithm::LeakyBucket), State::default());
        state.reserve(&config, &[1; 40], u64::MAX, 0);
        let (charged, _) = state.charge(&config, 12, 10, 0);
        assert_eq!(charged, Charged { taken: 9, debt: 3, excess: 0 }, "nine slots behind the last");
        let (charged, _) = state.charge(&config, 12, 10, 0);
        assert_eq!(charged, Charged { taken: 0, debt: 10, excess: 5 });
    }

    #[test]
    fn where_nobody_is_admitted_nothing_is_owed() {
        for algorithm in RULES {
            let nobody = Config { rate: 0, ..ten_a_second(algorithm) };
            let (charged, v) = State::default().charge(&nobody, 5, 10, 0);
            assert_eq!(charged, Charged { taken: 0, debt: 0, excess: 5 }, "{algorithm}");
            assert_eq!(v.retry_after, 0);
        }
    }
}
