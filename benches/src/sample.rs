//! The results of one period of load.

use std::{
    ops::AddAssign,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

/// Longer latencies count as this one.
const LONGEST: u64 = 60_000_000_000;

/// Decisions, and how long each took.
#[derive(Clone, Debug)]
pub struct Sample {
    pub allowed: u64,
    pub refused: u64,
    /// Calls without a decision: they failed, or the decision was late.
    pub errors: u64,
    pub elapsed: Duration,
    /// In nanoseconds, to two digits.
    pub latency: Histogram<u64>,
}

impl Default for Sample {
    fn default() -> Self {
        let latency = Histogram::new_with_max(LONGEST, 2).expect("two digits are few enough");
        Self { allowed: 0, refused: 0, errors: 0, elapsed: Duration::ZERO, latency }
    }
}

impl Sample {
    pub fn decisions(&self) -> u64 {
        self.allowed + self.refused
    }

    pub fn per_second(&self) -> f64 {
        self.decisions() as f64 / self.elapsed.as_secs_f64()
    }

    /// A latency in microseconds; 0.5 is the median.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1000.0
    }

    fn record(&mut self, decision: Result<bool, ()>, times: u64, latency: Duration) {
        match decision {
            Ok(true) => self.allowed += times,
            Ok(false) => self.refused += times,
            Err(()) => {
                self.errors += times;
                return;
            }
        }
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(LONGEST);
        self.latency.saturating_record_n(nanos, times);
    }

    /// Reads what a driver in another process wrote: `allowed N refused N errors N nanos N`, then
    /// latencies as `NANOS:COUNT`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut sample = Self::default();
        let mut words = text.split(' ');
        let mut number = |name| {
            let named = words.next() == Some(name);
            words.next().filter(|_| named)?.parse::<u64>().ok()
        };
        sample.allowed = number("allowed")?;
        sample.refused = number("refused")?;
        sample.errors = number("errors")?;
        sample.elapsed = Duration::from_nanos(number("nanos")?);
        for word in words {
            let (value, count) = word.split_once(':')?;
            let (value, count) = (value.parse().ok()?, count.parse().ok()?);
            sample.latency.saturating_record_n(value, count);
        }
        Some(sample)
    }
}

impl AddAssign<&Sample> for Sample {
    fn add_assign(&mut self, other: &Sample) {
        self.allowed += other.allowed;
        self.refused += other.refused;
        self.errors += other.errors;
        self.elapsed += other.elapsed;
        self.latency.add(&other.latency).expect("histograms of one shape");
    }
}

/// Records the decisions of many concurrent tasks.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    /// More than threads, so that no task waits long for a lock.
    shards: Vec<Mutex<Sample>>,
}

impl Recorder {
    pub fn start() -> Self {
        Self { start: Instant::now(), shards: (0..16).map(|_| Mutex::default()).collect() }
    }

    /// Records a decision of the task with this number, which took from `since` to `until` and counts `times`.
    pub fn record(
        &self,
        task: usize,
        decision: Result<bool, ()>,
        times: u64,
        since: Instant,
        until: Instant,
    ) {
        let mut sample = lock(&self.shards[task % self.shards.len()]);
        sample.record(decision, times, until.duration_since(since));
        sample.elapsed = sample.elapsed.max(until.duration_since(self.start));
    }

    /// Everything so far, as of the last decision.
    pub fn total(&self) -> Sample {
        let mut total = Sample::default();
        let mut last = Duration::ZERO;
        for shard in &self.shards {
            let sample = lock(shard);
            last = last.max(sample.elapsed);
            total += &sample;
        }
        total.elapsed = last;
        total
    }
}

fn lock(shard: &Mutex<Sample>) -> std::sync::MutexGuard<'_, Sample> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
