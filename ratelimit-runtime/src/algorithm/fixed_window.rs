//! At most `rate` permits in each window; all of them are free again when the next window begins.
//! Windows are aligned to the Unix epoch or to a calendar.

use ratelimit_spec::Calendar;

use super::{
    Config,
    meter::{Left, Meter, Owing},
};

/// The permits taken in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    start: u64,
    used: u64,
    per: u64,
    calendar: Option<Calendar>,
    /// Debt beyond the window's permits; free permits pay it first.
    debt: u64,
    /// When the debt is paid at the latest, under the configuration that it was counted with.
    paid_by: u64,
}

/// A window as of one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    window: Window,
    rate: u64,
    now: u64,
    ahead: u64,
    paid: u64,
}

impl Window {
    /// Returns whether this window belongs to the windows of `config`.
    pub(super) fn fits(&self, config: &Config) -> bool {
        // Calendar windows differ in length.
        self.calendar == config.calendar() && (self.calendar.is_some() || self.per == config.per_ms)
    }

    /// The permits taken in the window, unless it is over, plus the debt. While something is owed, all permits of
    /// a window are taken, so each window since this one paid as many.
    pub(super) fn used(&self, now: u64) -> u64 {
        let owed = self.owed(now);
        match now.checked_sub(self.end()) {
            Some(since) => owed.saturating_sub((since / self.per.max(1)).saturating_mul(self.used)),
            None => owed.saturating_add(self.used),
        }
    }

    pub(super) fn is_idle(&self, now: u64) -> bool {
        self.owed(now) == 0 && self.is_over(now)
    }

    fn is_over(&self, now: u64) -> bool {
        self.used == 0 || self.end() <= now
    }

    pub(super) fn debt(&self) -> u64 {
        self.debt
    }

    fn owed(&self, now: u64) -> u64 {
        if now < self.paid_by { self.debt } else { 0 }
    }

    /// Takes permits that are free, and returns what is left, or `None` if the window has yet to begin or is
    /// over, something is owed, or the configuration differs.
    #[inline]
    pub(super) fn spend(&mut self, config: &Config, permits: u64, now: u64) -> Option<Left> {
        if !self.fits(config) || self.debt > 0 || self.start > now || self.is_over(now) {
            return None;
        }
        let left = config.rate.checked_sub(self.used)?.checked_sub(permits)?;
        (self.used, self.paid_by) = (self.used + permits, self.end());
        Some(Left { amount: left, at: 0 })
    }

    /// Releases permits of the window that ends at `ends`, unless it is over.
    pub(super) fn give_back(&mut self, permits: u64, ends: u64, now: u64) -> u64 {
        if self.end() != ends || ends <= now {
            return 0;
        }
        let back = permits.min(self.used);
        self.used -= back;
        if self.used == 0 && self.debt == 0 {
            self.start = 0;
        }
        back
    }

    /// The debt that is left at `start`, after all windows since this one and the rest of this one
    /// paid for it. Those of a calendar differ in length, by less than half of the usual one.
    fn owed_after(&self, start: u64, config: &Config, now: u64) -> u64 {
        let owed = self.owed(now);
        if self.end() > now {
            return owed;
        }
        let per = config.per_ms.max(1);
        let rounding = if self.calendar.is_some() { (per - 1) / 2 } else { 0 };
        let between = start.saturating_sub(self.end()).saturating_add(rounding) / per;
        owed.saturating_sub(config.rate.saturating_sub(self.used))
            .saturating_sub(between.saturating_mul(config.rate))
    }

    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.per)
    }

    /// The active window under `config`, which this window [fits](Self::fits). If the clock stepped back
    /// into the previous window, this one stays active, because another would grant its permits again. A
    /// window further ahead would lock out all callers, so its permits count in a window that begins now,
    /// since the current one may end in a moment. In a calendar they count in the current window.
    pub(super) fn at(&self, config: &Config, now: u64) -> Count {
        let mut count = Count { window: *self, rate: config.rate, now, ahead: 0, paid: 0 };
        if self.start > now || self.is_over(now) {
            let current = Count::new(config, 0, now).window;
            if self.start > current.end() {
                count.ahead = self.start - now;
                let start = if self.calendar.is_some() { current.start } else { now };
                count.window = Window { start, used: self.used, debt: self.debt, ..current };
            } else if self.start <= now {
                let start = if self.is_before(now) { self.end() } else { current.start };
                let debt = self.owed_after(start, config, now);
                count.window = Window { start, debt, ..current };
            }
        }
        count.pay();
        count
    }

    /// Returns whether `now` is in the window right after this one, wherever this one began.
    fn is_before(&self, now: u64) -> bool {
        self.calendar.is_none() && self.end() <= now && now < self.end().saturating_add(self.per)
    }
}

impl Count {
    /// The current window after `used` permits were taken; those beyond its rate become debt.
    pub(super) fn new(config: &Config, used: u64, now: u64) -> Self {
        let (start, per) = config.window_at(now);
        let calendar = config.calendar();
        let window = Window { start, used: 0, per, calendar, debt: used, paid_by: 0 };
        let mut count = Self { window, rate: config.rate, now, ahead: 0, paid: 0 };
        count.pay();
        count
    }

    /// Pays debt with free permits.
    fn pay(&mut self) {
        let paid = self.free().min(self.window.debt);
        self.window.used += paid;
        self.window.debt -= paid;
        self.paid += paid;
    }

    /// Returns whether debt was paid now.
    pub(super) fn has_paid(&self) -> bool {
        self.paid > 0
    }

    /// The state to store. A window without permits in use stores no start.
    pub(super) fn window(&self) -> Window {
        let start = if self.window.used > 0 { self.window.start } else { 0 };
        // The next windows of a calendar may be longer than this one.
        let longer = if self.window.calendar.is_some() { self.owed_windows_ms() } else { 0 };
        let paid_by = self.now.saturating_add(self.full_after()).saturating_add(longer);
        Window { start, paid_by, ..self.window }
    }

    /// Releases permits, those of the debt first, and returns how many were released.
    pub(super) fn give_back(&mut self, permits: u64) -> u64 {
        let owed = permits.min(self.window.debt);
        let back = (permits - owed).min(self.window.used);
        self.window.debt -= owed;
        self.window.used -= back;
        owed + back
    }

    /// The length of the windows that the debt takes after this one, if they are as long as this one.
    fn owed_windows_ms(&self) -> u64 {
        self.window.debt.div_ceil(self.rate.max(1)).saturating_mul(self.window.per)
    }

    fn ends_in(&self) -> u64 {
        self.window.end().saturating_sub(self.now)
    }
}

impl Meter for Count {
    fn capacity(&self) -> u64 {
        self.rate
    }

    fn free(&self) -> u64 {
        self.rate.saturating_sub(self.window.used)
    }

    fn take(&mut self, permits: u64) {
        self.window.used = self.window.used.saturating_add(permits);
    }

    fn wait(&self, permits: u64) -> u64 {
        if self.window.debt == 0 && permits <= self.free() {
            return 0;
        }
        // The windows that the debt takes first. Of a calendar's windows only the first is known.
        let ahead = self.window.debt.saturating_add(permits).saturating_sub(1);
        let windows = if self.window.calendar.is_some() { 0 } else { ahead / self.rate.max(1) };
        self.ends_in().saturating_add(windows.saturating_mul(self.window.per))
    }

    fn full_after(&self) -> u64 {
        let owed = self.owed_windows_ms();
        if self.window.used == 0 { owed } else { self.ends_in().saturating_add(owed) }
    }

    fn ahead(&self) -> u64 {
        self.ahead
    }
}

impl Owing for Count {
    fn debt(&self) -> u64 {
        self.window.debt
    }

    fn owe(&mut self, permits: u64) {
        self.window.debt = self.window.debt.saturating_add(permits);
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_spec::{Mode, Rule};

    use crate::algorithm::{Config, State};

    fn fixed(rate: u64, per: u64) -> Config {
        Config::new(rate, per, Mode::Overall).rule(Rule::FixedWindow { calendar: None })
    }

    #[test]
    fn everything_is_free_again_when_the_next_window_begins() {
        let (config, mut state) = (fixed(3, 1000), State::default());
        // (time, permits), then (granted, remaining, retry_after, reset_after).
        let trace = [
            ((1900, 2), (true, 1, 100, 100)),
            ((1950, 2), (false, 1, 50, 50)),
            ((1999, 1), (true, 0, 1, 1)),
            ((1999, 1), (false, 0, 1, 1)),
            ((1999, 4), (false, 3, 0, 1)),
            ((2000, 3), (true, 0, 1000, 1000)),
            ((2001, 1), (false, 0, 999, 999)),
            ((9500, 1), (true, 2, 0, 500)),
        ];
        for ((at, permits), told) in trace {
            let v = state.acquire(&config, permits, at);
            assert_eq!(
                (v.granted, v.remaining, v.retry_after, v.reset_after),
                told,
                "{permits} at {at}"
            );
        }
    }

    #[test]
    fn what_is_given_back_is_free_in_this_window() {
        let (config, mut state) = (fixed(3, 1000), State::default());
        state.acquire(&config, 3, 100);
        assert_eq!(state.release(&config, 2, 900), 2);
        assert_eq!(state.peek(&config, 1, 900).remaining, 2);
        assert_eq!(state.release(&config, 9, 1000), 0, "the window is over");
    }

    #[test]
    fn a_clock_that_steps_back_into_the_window_before_admits_nothing_twice() {
        let (config, mut state) = (fixed(3, 1000), State::default());
        state.acquire(&config, 3, 2010);
        let v = state.acquire(&config, 1, 1990);
        assert_eq!((v.granted, v.retry_after, v.ahead), (false, 1010, 0));
        assert!(!state.acquire(&config, 1, 2500).granted);
        assert!(state.acquire(&config, 3, 3000).granted);
    }

    #[test]
    fn a_clock_that_steps_back_further_locks_nobody_out_for_longer_than_a_window() {
        let (config, mut state) = (fixed(3, 1000), State::default());
        state.acquire(&config, 3, 1_000_000);
        let v = state.acquire(&config, 1, 5400);
        assert_eq!((v.granted, v.retry_after, v.ahead), (false, 1000, 994_600));
        assert!(!state.acquire(&config, 1, 6399).granted);
        assert!(state.acquire(&config, 3, 6400).granted);
    }

    #[test]
    fn a_clock_that_steps_back_to_the_end_of_a_window_admits_no_third_one() {
        let (config, mut state) = (fixed(3, 1000), State::default());
        assert!(state.acquire(&config, 3, 2990).granted);
        assert!(state.acquire(&config, 2, 3000).granted);
        // The clock steps back by more than a window.
        assert!(!state.acquire(&config, 2, 990).granted);
        assert!(!state.acquire(&config, 2, 1000).granted);
        assert!(state.acquire(&config, 1, 1989).granted);
        assert!(state.acquire(&config, 3, 1990).granted);
        // The next windows begin where that one ended, until one of them is unused.
        assert!(!state.acquire(&config, 1, 2989).granted);
        assert!(state.acquire(&config, 3, 2990).granted);
        assert!(state.acquire(&config, 3, 4990).granted);
        assert!(state.acquire(&config, 3, 5000).granted);
    }
}
