//! The configuration of a process for one key, and its changes.

use std::{
    any::Any,
    sync::{
        Arc, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use ratelimit_spec::{RefundOn, Wait};
use tokio::time::Instant;

use super::{
    core::{Core, Members, Numbers, Rule},
    services::Services,
    share::Share,
};
use crate::{
    Rejection, Settings, clock,
    events::Event,
    report::Source,
    settings::{Current, Family, Name, Unresolved, wait_of_calls},
    store::{AnyStore, Assertion, Config, Lease, Rejects, Terms},
};

impl Rule {
    /// Returns a configuration that is held for long: the rule's own one is shared.
    pub(super) fn shared(&self, config: Config) -> Arc<Config> {
        let known = self.config.get_or_init(|| Arc::new(config));
        if **known == config { Arc::clone(known) } else { Arc::new(config) }
    }

    /// Returns the terms under which this process counts a limiter, until `until_ms`.
    pub(super) fn lease(&self, family: &Family, config: Config, until_ms: u64) -> Lease {
        // Only a limiter knows that it is in shadow mode, so no call by its name may count it.
        let number = if self.is_shadowed() { 0 } else { family.number };
        let terms = || {
            let announces = self.numbers.as_ref().is_ok_and(|numbers| !numbers.follow);
            let (whose, rejects) = ((self.number, number), self.rejects());
            Arc::new(Terms::new(whose, self.generation, config, announces, rejects))
        };
        let known = self.terms.get_or_init(terms);
        let same = known.is(number, &config);
        Lease { terms: if same { Arc::clone(known) } else { terms() }, until_ms }
    }

    /// Returns which calls are rejected immediately when the limit is exceeded.
    fn rejects(&self) -> Rejects {
        let at_once = |wait| wait == Wait::None && !self.is_shadowed();
        Rejects { calls: at_once(self.wait()), requests: at_once(self.wait_if_set()) }
    }

    fn wait(&self) -> Wait {
        self.numbers.as_ref().map_or(Wait::None, |numbers| numbers.effective.set.wait())
    }

    fn wait_if_set(&self) -> Wait {
        let set = self.numbers.as_ref().ok().and_then(|numbers| numbers.effective.set.wait);
        set.filter(|wait| wait.source != Source::BuiltIn).map_or(Wait::None, |wait| wait.value)
    }

    pub(super) fn is_shadowed(&self) -> bool {
        self.numbers.as_ref().is_ok_and(|numbers| numbers.effective.set.shadow())
    }

    /// Creates a rule that this process has had since `since`.
    pub(super) fn new(
        services: &Weak<dyn Any + Send + Sync>,
        current: &Current,
        since: Instant,
        numbers: Result<Numbers, Unresolved>,
    ) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self {
            number,
            services: services.clone(),
            generation: current.number,
            revision: current.revision(),
            member: current.member(),
            since,
            numbers,
            members: Members::Itself,
            continues: None,
            first: number,
            is_checked: AtomicBool::new(false),
            config: OnceLock::new(),
            terms: OnceLock::new(),
        }
    }

    /// Creates a rule that replaces another; `since` is when the limits file last changed the limiter's
    /// settings. An equal configuration is not new: it keeps its age, and stays announced if it was.
    pub(super) fn after(
        before: &Self,
        current: &Current,
        since: Instant,
        numbers: Result<Numbers, Unresolved>,
    ) -> Self {
        let config = |numbers: &Result<Numbers, Unresolved>| {
            numbers.as_ref().ok().map(|numbers| numbers.config)
        };
        if config(&numbers) == config(&before.numbers) {
            let rule = Self::new(&before.services, current, before.since, numbers);
            let continues = (before.revision == rule.revision).then_some(before.number);
            return Self { continues, first: before.first, ..rule };
        }
        let since = match before.generation == current.number {
            // The code set another quota.
            true => clock::instant(),
            false if since > before.since => since,
            false => current.since,
        };
        Self::new(&before.services, current, since, numbers)
    }
}

impl Core {
    /// Returns how long a call may wait whose attribute has this `wait`; without a configuration, it may not.
    pub(crate) fn wait(&self, limits: &Services, own: Option<Wait>) -> Wait {
        let rule = self.rule(limits);
        let default = || limits.current().default_wait();
        rule.numbers
            .as_ref()
            .map_or(Wait::None, |numbers| wait_of_calls(&numbers.effective.set, own, default).value)
    }

    /// Returns how long a request to a layer may wait; without a setting, it may not.
    #[cfg(feature = "tower")]
    pub(crate) fn wait_if_set(&self, limits: &Services) -> Wait {
        self.rule(limits).wait_if_set()
    }

    /// Returns which calls release permits to the limiter, as of its latest call.
    pub(super) fn refund_on(&self) -> RefundOn {
        let rule = self.rule.load();
        rule.numbers.as_ref().map_or(RefundOn::Never, |numbers| numbers.effective.set.refund_on())
    }

    /// Returns whether the limiter is in shadow mode, as of the last reading of the limits.
    pub(super) fn is_shadowed(&self, limits: &Services) -> bool {
        self.rule(limits).is_shadowed()
    }

    /// Returns the active configuration, as far as this process knows.
    pub(crate) fn known(&self, limits: &Services) -> Result<Config, Rejection> {
        let rule = self.rule(limits);
        let numbers = rule.numbers.as_ref().map_err(|why| self.not_configured(why))?;
        match self.in_force() {
            Some(config) => Ok(config),
            None if numbers.follow => Err(self.unknown()),
            None => Ok(numbers.config),
        }
    }

    pub(super) fn rule(&self, limits: &Services) -> Arc<Rule> {
        let rule = self.rule.load();
        // The rule of an additional limit is renewed with that of the first.
        if rule.generation == limits.generation() || self.is_further {
            return Arc::clone(&rule);
        }
        self.renew(limits, &rule)
    }

    /// Replaces the limiter's settings in code; the limits file still takes precedence.
    pub(crate) fn give(&self, limits: &Services, settings: &Settings) {
        // A change by a reload is applied first, because it has its own age.
        let before = self.rule(limits);
        let mut given = self.rare().given.lock().unwrap_or_else(PoisonError::into_inner);
        if given.as_ref() != Some(settings) {
            *given = Some(settings.clone());
            drop(given);
            self.report_given(Some(settings));
            let renewed = self.renew(limits, &before);
            self.withdraw(limits);
            for shard in renewed.shards().into_iter().flat_map(|shards| shards.iter()) {
                shard.give(limits, settings);
            }
        }
    }

    /// Returns whether and how a request announces the configuration.
    pub(super) fn assertion(&self, rule: &Rule, numbers: &Numbers) -> Assertion {
        if numbers.follow {
            Assertion::Follow { first: !self.is_stated(rule) }
        } else if self.is_stated(rule) {
            Assertion::Steady
        } else {
            Assertion::First(numbers.effective.set.on_drift())
        }
    }

    /// Reports the settings of the limits file that have no effect on the settings in code, once for each rule. Called
    /// without a lock, because a receiver of the event may use the limiter.
    pub(crate) fn check_given(&self, limits: &Services) {
        let rule = self.rule.load();
        if rule.numbers.is_err() || rule.is_checked.load(Ordering::Relaxed) {
            return;
        }
        let (Some(given), None) = (self.given(), self.share()) else { return };
        if rule.is_checked.swap(true, Ordering::Relaxed) {
            return;
        }
        for conflict in limits.current().without_effect(&self.family, self.names().given, &given) {
            let (limiter, conflict) = (Arc::clone(&self.family.key), conflict.to_string());
            limits.events.emit(&Event::NoEffect { limiter, conflict });
        }
    }

    /// Shows settings in code in the report, if this limiter has a row of its own.
    pub(crate) fn report_given(&self, settings: Option<&Settings>) {
        let row = self.family.row();
        if let Some(settings) = settings
            && !row.is_unnamed()
            && row.label.is_of(self.names().given)
        {
            row.given.store(Some(Arc::new(settings.clone())));
        }
    }

    /// Counts the calls in the row of the template that a reload added for this name.
    pub(crate) fn count_in(&self, added: Arc<Family>) {
        self.family.count_in(added);
        self.report_given(self.given().as_ref());
    }

    fn given(&self) -> Option<Settings> {
        self.made()?.given.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn renew(&self, limits: &Services, rule: &Rule) -> Arc<Rule> {
        let given = self.given();
        let (stored, itself) = ((&self.keys, &self.family), (self.names(), self.share()));
        let renewed = Rule::of(limits, stored, itself, given.as_ref(), Some(rule));
        self.adopt(&renewed);
        self.check_given(limits);
        renewed
    }

    /// Revokes leases, so that no call counts without this limiter.
    pub(super) fn withdraw(&self, limits: &Services) {
        if let AnyStore::Memory(store) = &limits.store {
            store.withdraw(&self.keys);
        }
    }

    /// Switches to another rule.
    pub(super) fn adopt(&self, renewed: &Arc<Rule>) {
        self.state_again(renewed);
        if renewed.shards().is_some() {
            self.forget_in_force();
        }
        self.rule.store(Arc::clone(renewed));
        self.shadowed.store(renewed.is_shadowed(), Ordering::Release);
        self.rule_number.store(renewed.number, Ordering::Release);
        self.denials.forget();
    }
}

/// Resolves the settings of a limiter with this name, as of one reading of the limits.
pub(super) fn resolve(
    current: &Current,
    family: &Family,
    (name, share): (Name<'_>, Option<Share>),
    given: Option<&Settings>,
) -> Result<Numbers, Unresolved> {
    let (mut effective, follow) = match current.resolve(family, Some(name.given), given) {
        Ok(effective) => (effective, false),
        // A name that exists only at run time may be a limiter of another service.
        Err(Unresolved::Missing(_)) if family.annotation.is_none() => {
            (current.resolve_following(family, Some(name.given)), true)
        }
        Err(missing) => return Err(missing),
    };
    if share.is_some() {
        // A call tries all shards before shadow mode admits it.
        effective.set.shadow = None;
    }
    let whole = effective.config();
    let config = share.map_or(whole, |share| share.of(whole));
    Ok(Numbers { effective, config, follow })
}
