//! Generates the static of one attribute.

use proc_macro2::{Literal, Span, TokenStream};
use quote::quote_spanned;
use ratelimit_spec::{Per, TimeZone};

use crate::function::{Function, ends};
use crate::hygiene::{generated, reported_at};
use crate::runtime::Runtime;
use crate::site;
use crate::validate::{Guard, Numbers, Permits};

pub(super) fn annotation(runtime: &Runtime, guard: &Guard<'_>, function: &Function) -> TokenStream {
    let start = guard.numbers.rate.as_ref().map_or_else(Span::call_site, |rate| ends(rate).0);
    let annotation = site::annotation(runtime, &guard.key, Some(&function.name()), start);
    let settings = settings(runtime, guard);
    generated!(#annotation #settings)
}

/// Generates only the settings in the annotation: the limits file may set the rest.
fn settings(runtime: &Runtime, guard: &Guard<'_>) -> TokenStream {
    let Numbers { rate, per, limits, .. } = &guard.numbers;
    let (mut settings, mut rare) = (TokenStream::new(), TokenStream::new());
    if let Some(rate) = rate {
        settings.extend(quote_spanned!(reported_at(ends(rate).1)=> .rate(#rate)));
    }
    if let Some(Per { length, unit }) = *per {
        let length = site::milliseconds(length);
        match unit.map(|unit| site::word(runtime, "CalendarUnit", unit)) {
            Some(unit) => rare.extend(generated!(.unit(#unit))),
            None => settings.extend(generated!(.per_ms(#length))),
        }
    }
    if let Some(zone) = guard.said.time_zone.map(TimeZone::name) {
        rare.extend(generated!(.time_zone(#zone)));
    }
    if let Some(limits) = limits {
        let limits = limits.iter().map(|(rate, per)| {
            let per = site::milliseconds(*per);
            generated!((#rate, #per))
        });
        rare.extend(generated!(.limits(&[#(#limits),*])));
    }
    if let Some(warm_up) = guard.said.warm_up.map(site::milliseconds) {
        rare.extend(generated!(.warm_up_ms(#warm_up)));
    }
    if !rare.is_empty() {
        let private = runtime.private();
        settings.extend(generated!(.rare(&#private::Rare::NONE #rare)));
    }
    settings.extend(site::declared(runtime, &guard.numbers));
    if let Some(mode) = guard.said.mode.map(|mode| site::word(runtime, "Mode", mode)) {
        settings.extend(generated!(.mode(#mode)));
    }
    if let Some(algorithm) = guard.said.algorithm {
        let algorithm = site::word(runtime, "Algorithm", algorithm);
        settings.extend(generated!(.algorithm(#algorithm)));
    }
    if let Some(burst) = &guard.burst {
        settings.extend(quote_spanned!(reported_at(ends(burst).1)=> .burst(#burst)));
    }
    if let Some(wait) = guard.said.wait.map(|wait| site::wait(runtime, wait)) {
        settings.extend(generated!(.wait(#wait)));
    }
    if let Some(policy) =
        guard.said.on_store_error.map(|policy| site::word(runtime, "OnStoreError", policy))
    {
        settings.extend(generated!(.on_store_error(#policy)));
    }
    if let Some(outcome) =
        guard.said.refund_on.map(|outcome| site::word(runtime, "RefundOn", outcome))
    {
        settings.extend(generated!(.refund_on(#outcome)));
    }
    settings.extend(match guard.permits {
        Permits::Fixed(1) => TokenStream::new(),
        Permits::Fixed(permits) => {
            let permits = Literal::u32_unsuffixed(permits);
            generated!(.permits(#permits))
        }
        Permits::Computed(_) => generated!(.computed_permits()),
    });
    if guard.can_reject() {
        settings.extend(generated!(.fallible()));
    }
    settings
}
