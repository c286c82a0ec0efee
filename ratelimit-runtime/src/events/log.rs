//! Events of `tracing`: the text of an event, and what a log can select by as fields.

use tracing::field::{DisplayValue, display};

use super::Event;
use crate::Quota;

/// The fields that only some events have.
#[derive(Default)]
struct Details<'a> {
    reason: Option<&'static str>,
    outcome: Option<&'static str>,
    old: Option<Quota>,
    new: Option<Quota>,
    node: Option<&'a str>,
    slots: Option<&'a str>,
}

pub(super) fn write(event: &Event) {
    let limiter = event.limiter().map(|limiter| &**limiter);
    let (kind, count) = (event.word(), count(event));
    let Details { reason, outcome, old, new, node, slots } = Details::of(event);
    let [old, new]: [Option<DisplayValue<Quota>>; 2] = [old, new].map(|quota| quota.map(display));
    // The level of an event is a part of the code.
    macro_rules! log {
        ($level:ident) => {
            tracing::$level!(
                target: "ratelimit",
                kind, limiter, count, reason, outcome, old, new, node, slots,
                "{event}"
            )
        };
    }
    if is_quiet(event) {
        log!(info);
    } else {
        log!(warn);
    }
}

impl<'a> Details<'a> {
    fn of(event: &'a Event) -> Self {
        match event {
            Event::Rejected { rejection } | Event::WouldReject { rejection } => {
                Self { reason: Some(rejection.reason().word()), ..Self::default() }
            }
            Event::Reconciled { outcome, old, new, .. } => Self {
                outcome: Some(outcome.word()),
                old: *old,
                new: Some(*new),
                ..Self::default()
            },
            Event::StoreDown { node, slots, .. } | Event::StoreUp { node, slots } => {
                Self { node: node.as_deref(), slots: slots.as_deref(), ..Self::default() }
            }
            Event::Repeated { event, .. } => Self::of(event),
            _ => Self::default(),
        }
    }
}

fn is_quiet(event: &Event) -> bool {
    match event {
        Event::StoreUp { .. } | Event::Reloaded | Event::EmbeddedStore | Event::Rejected { .. } => {
            true
        }
        Event::Repeated { event, .. } => is_quiet(event),
        _ => false,
    }
}

/// Returns how often the event has happened since the last report.
fn count(event: &Event) -> u64 {
    if let Event::Repeated { more, .. } = event { *more } else { 1 }
}
