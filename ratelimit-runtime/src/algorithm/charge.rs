//! Costs that are known only afterwards: what is not free then is owed, and is paid before anything
//! else is granted.

use super::{
    Config, State, Verdict,
    fixed_window::Count,
    meter::Meter,
    open::{Form, Open, Sheet},
    sliding_window::OpenLog,
    token_bucket::Level,
    warm_up::Heat,
};

/// What became of a charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// Permits that were free.
    pub taken: u64,
    /// Permits that are owed now, in all.
    pub debt: u64,
    /// Permits above the greatest debt, which are written off.
    pub excess: u64,
}

/// A meter that can owe permits.
pub(super) trait Owing: Meter {
    /// What is owed, in permits.
    fn debt(&self) -> u64;

    /// The permits that can be taken without owing any.
    fn room(&self) -> u64;

    /// Takes permits that are not free.
    fn owe(&mut self, permits: u64);

    /// The most permits that can be owed in addition, however much is allowed.
    fn most(&self) -> u64 {
        u64::MAX
    }

    /// Takes what is free, and owes the rest up to `max_debt` in all.
    fn charge(&mut self, permits: u64, max_debt: u64) -> Charged {
        let (debt, taken) = (self.debt(), permits.min(self.room()));
        let owed = (permits - taken).min(max_debt.saturating_sub(debt)).min(self.most());
        if taken > 0 {
            self.take(taken);
        }
        if owed > 0 {
            self.owe(owed);
        }
        Charged { taken, debt: debt + owed, excess: permits - taken - owed }
    }
}

impl State {
    /// Takes what is free, and owes the rest up to `max_debt` in all. The verdict is what one more
    /// permit would find.
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

    /// How long until nothing that is used or owed counts any more, in milliseconds, where that can be
    /// longer than by the numbers alone.
    pub(crate) fn lasts_ms(&self, config: &Config, now: u64) -> u64 {
        let debt = match self {
            Self::Log(log) => log.debt(),
            Self::Window(window) => window.debt(),
            Self::Bucket(bucket) => return bucket.lasts_ms(now),
            Self::Warm(warm) => return warm.lasts_ms(now),
        };
        let windows = debt.div_ceil(config.rate.max(1));
        windows.saturating_mul(config.per_ms).saturating_add(config.counts_for_ms())
    }
}

impl Open<'_> {
    fn charge(&mut self, permits: u64, max_debt: u64) -> Charged {
        match &mut self.0 {
            Form::Log(log) => log.charge(permits, max_debt),
            Form::Bucket(sheet, _) => sheet.charge(permits, max_debt),
            Form::Warm(sheet, _) => sheet.charge(permits, max_debt),
            Form::Window(sheet, _) => sheet.charge(permits, max_debt),
            Form::Nothing => Charged { excess: permits, ..Charged::default() },
        }
    }
}

impl<M: Owing> Sheet<M> {
    fn charge(&mut self, permits: u64, max_debt: u64) -> Charged {
        let charged = self.meter.charge(permits, max_debt);
        self.changed |= charged.excess < permits;
        charged
    }
}

impl Owing for OpenLog<'_> {
    fn debt(&self) -> u64 {
        self.owed()
    }

    fn room(&self) -> u64 {
        self.free()
    }

    fn owe(&mut self, permits: u64) {
        self.add_debt(permits);
    }
}

impl Owing for Count {
    fn debt(&self) -> u64 {
        self.owed()
    }

    fn room(&self) -> u64 {
        self.free()
    }

    fn owe(&mut self, permits: u64) {
        self.add_debt(permits);
    }
}

impl Owing for Level {
    fn debt(&self) -> u64 {
        self.beyond()
    }

    fn room(&self) -> u64 {
        Self::room(self)
    }

    fn owe(&mut self, permits: u64) {
        self.take(permits);
    }

    fn most(&self) -> u64 {
        self.most_ahead()
    }
}

impl Owing for Heat {
    fn debt(&self) -> u64 {
        self.beyond()
    }

    fn room(&self) -> u64 {
        Self::room(self)
    }

    fn owe(&mut self, permits: u64) {
        self.take(permits);
    }

    fn most(&self) -> u64 {
        self.most_ahead()
    }
}
