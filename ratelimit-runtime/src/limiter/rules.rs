//! Rules shared by many limiters: those of keys without settings of their own.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::core::Rule;
use crate::{
    Settings,
    settings::{Current, Family, Keys, Label},
    store::Sweep,
};

/// The maximum number of rules kept per key template; the rules of its keys differ only while the
/// limits change, or if code sets different settings.
const MOST: usize = 4;

/// The minimum number of key templates before unused ones are removed: a program may create layers without end.
const SWEEP_AT: usize = 1_000;

/// The latest rules of each key template.
#[derive(Default)]
pub(crate) struct Rules(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_template: HashMap<Of, Vec<Kept>>,
    sweep: Sweep,
}

/// The key template of a rule; names that are built at run time have none.
type Of = (Option<Label>, Keys);

struct Kept {
    given: Option<Settings>,
    before: Option<u64>,
    rule: Arc<Rule>,
}

/// What identifies a rule.
pub(super) struct Wanted<'a> {
    generation: u64,
    of: Of,
    given: Option<&'a Settings>,
    before: Option<u64>,
}

impl<'a> Wanted<'a> {
    /// Returns `None` for a limiter with settings of its own.
    pub(super) fn of(
        current: &Current,
        (family, name): (&Family, &str),
        given: Option<&'a Settings>,
        before: Option<&Rule>,
    ) -> Option<Self> {
        if !current.says_nothing_of(family, name) {
            return None;
        }
        let of = ((!family.is_unnamed()).then(|| family.label.clone()), family.keys);
        Some(Self { generation: current.number, of, given, before: before.map(|rule| rule.number) })
    }

    fn is(&self, kept: &Kept) -> bool {
        kept.rule.generation == self.generation
            && kept.before == self.before
            && kept.given.as_ref() == self.given
    }
}

impl Rules {
    pub(super) fn find(&self, wanted: &Wanted<'_>) -> Option<Arc<Rule>> {
        let all = self.all();
        let kept = all.by_template.get(&wanted.of)?.iter().find(|kept| wanted.is(kept))?;
        Some(Arc::clone(&kept.rule))
    }

    pub(super) fn keep(&self, wanted: &Wanted<'_>, rule: &Arc<Rule>) {
        let (given, before) = (wanted.given.cloned(), wanted.before);
        let all = &mut *self.all();
        if all.sweep.is_due(all.by_template.len(), SWEEP_AT) {
            let is_used = |kept: &Kept| Arc::strong_count(&kept.rule) > 1;
            all.sweep.run(&mut all.by_template, |_, rules| rules.iter().any(is_used));
        }
        let kept = all.by_template.entry(wanted.of.clone()).or_default();
        kept.retain(|kept| kept.rule.generation == wanted.generation && !wanted.is(kept));
        kept.truncate(MOST - 1);
        kept.insert(0, Kept { given, before, rule: Arc::clone(rule) });
    }

    fn all(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
