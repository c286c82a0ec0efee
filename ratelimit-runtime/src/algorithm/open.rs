//! Limiter states opened at one instant, for one limiter or several at once.

use ratelimit_spec::Rule;

use super::{
    Config, State, Verdict, fixed_window::Count, meter::Meter, sliding_window::OpenLog,
    token_bucket::Level, warm_up::Heat,
};

/// A limiter's state as of one instant.
#[derive(Debug)]
pub(crate) struct Open<'a>(pub(super) Form<'a>);

#[derive(Debug)]
pub(super) enum Form<'a> {
    Log(OpenLog<'a>),
    Bucket(Sheet<Level>, &'a mut State),
    Warm(Sheet<Heat>, &'a mut State),
    Window(Sheet<Count>, &'a mut State),
    /// No call is admitted.
    Nothing,
}

/// A meter that is written back if something changed.
#[derive(Debug)]
pub(super) struct Sheet<M> {
    pub(super) meter: M,
    pub(super) changed: bool,
}

impl<M: Meter> Sheet<M> {
    /// Wraps a meter; `stale` if it was read from a state of another configuration.
    pub(super) fn new(meter: M, stale: bool) -> Self {
        let changed = stale || meter.ahead() > 0;
        Self { meter, changed }
    }

    fn take(&mut self, permits: u64) {
        self.meter.take(permits);
        self.changed = true;
    }

    fn acquire(&mut self, permits: u64) -> Verdict {
        self.changed |= permits <= self.meter.free();
        self.meter.acquire(permits)
    }
}

impl State {
    /// Takes the permits of several requests at one instant, in order. A request that exceeds the
    /// capacity takes nothing.
    pub(crate) fn acquire_all(
        &mut self,
        config: &Config,
        costs: impl Iterator<Item = u64> + Clone,
        now: u64,
    ) -> Vec<Verdict> {
        let mut open = self.open(config, costs.clone(), now);
        let verdicts = open.decide(costs);
        open.close(now);
        verdicts
    }

    /// Opens the state for requests at one instant; permits that they take count once it is
    /// [closed](Open::close).
    pub(crate) fn open(
        &mut self,
        config: &Config,
        costs: impl Iterator<Item = u64>,
        now: u64,
    ) -> Open<'_> {
        if self.is_moot(config) {
            return Open(Form::Nothing);
        }
        let stale = self.is_foreign(config);
        Open(match config.rule {
            Rule::WarmingBucket { .. } => {
                Form::Warm(Sheet::new(self.heat(config, now), stale), self)
            }
            Rule::TokenBucket { .. } | Rule::LeakyBucket => {
                Form::Bucket(Sheet::new(self.level(config, now), stale), self)
            }
            Rule::FixedWindow { .. } => {
                let count = self.count(config, now);
                let stale = stale || count.has_paid();
                Form::Window(Sheet::new(count, stale), self)
            }
            Rule::SlidingWindow => {
                Form::Log(self.as_log(config, now).open(config.rate, config.per_ms, costs, now))
            }
        })
    }
}

impl Open<'_> {
    /// Writes back a changed state.
    pub(crate) fn close(self, now: u64) {
        match self.0 {
            Form::Bucket(Sheet { meter, changed: true }, state) => {
                *state = State::Bucket(meter.at(now));
            }
            Form::Warm(Sheet { meter, changed: true }, state) => {
                *state = State::Warm(Box::new(meter.warm(now)));
            }
            Form::Window(Sheet { meter, changed: true }, state) => {
                *state = State::Window(meter.window());
            }
            _ => {}
        }
    }

    /// Takes the permits of one request if it fits.
    pub(super) fn acquire(&mut self, permits: u64) -> Verdict {
        match &mut self.0 {
            Form::Log(log) => log.acquire(permits),
            Form::Bucket(sheet, _) => sheet.acquire(permits),
            Form::Warm(sheet, _) => sheet.acquire(permits),
            Form::Window(sheet, _) => sheet.acquire(permits),
            Form::Nothing => Verdict::default(),
        }
    }

    fn meter(&self) -> Option<&dyn Meter> {
        match &self.0 {
            Form::Log(log) => Some(log),
            Form::Bucket(sheet, _) => Some(&sheet.meter),
            Form::Warm(sheet, _) => Some(&sheet.meter),
            Form::Window(sheet, _) => Some(&sheet.meter),
            Form::Nothing => None,
        }
    }
}

impl Meter for Open<'_> {
    fn capacity(&self) -> u64 {
        self.meter().map_or(0, Meter::capacity)
    }

    fn free(&self) -> u64 {
        self.meter().map_or(0, Meter::free)
    }

    fn take(&mut self, permits: u64) {
        match &mut self.0 {
            Form::Log(log) => log.take(permits),
            Form::Bucket(sheet, _) => sheet.take(permits),
            Form::Warm(sheet, _) => sheet.take(permits),
            Form::Window(sheet, _) => sheet.take(permits),
            Form::Nothing => {}
        }
    }

    fn wait(&self, permits: u64) -> u64 {
        self.meter().map_or(0, |meter| meter.wait(permits))
    }

    fn full_after(&self) -> u64 {
        self.meter().map_or(0, Meter::full_after)
    }

    fn ahead(&self) -> u64 {
        self.meter().map_or(0, Meter::ahead)
    }

    fn moved(&self) -> u64 {
        self.meter().map_or(0, Meter::moved)
    }
}

/// Takes the permits of all limiters or of none for each caller in order, and returns whether each
/// request fit. A caller whose requests all fit got its permits, if calls are admitted.
///
/// `costs` has one row per limiter, with one cost per caller.
pub(crate) fn decide_jointly(
    limiters: &mut [Open<'_>],
    costs: &[&[u32]],
    admit: bool,
) -> Vec<Vec<Verdict>> {
    let callers = costs.first().map_or(0, |row| row.len());
    let mut verdicts = vec![Vec::with_capacity(callers); limiters.len()];
    for caller in 0..callers {
        let costs = || costs.iter().map(|row| u64::from(row[caller]));
        let take = admit && limiters.iter().zip(costs()).all(|(open, cost)| cost <= open.free());
        for ((open, cost), verdicts) in limiters.iter_mut().zip(costs()).zip(&mut verdicts) {
            verdicts.push(open.answer(cost, take));
        }
    }
    for ((open, row), verdicts) in limiters.iter().zip(costs).zip(&mut verdicts) {
        open.date(verdicts, row.iter().copied().map(u64::from));
    }
    verdicts
}
