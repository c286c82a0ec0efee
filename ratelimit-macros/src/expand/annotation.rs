//! Generates the settings of one attribute.

use proc_macro2::{Literal, TokenStream};
use quote::ToTokens;
use ratelimit_spec::{Per, TimeZone};
use syn::Expr;

use crate::function::ends;
use crate::hygiene::generated;
use crate::runtime::Runtime;
use crate::site;
use crate::validate::{Guard, Numbers, Permits};

/// Generates only the settings in the annotation, as fields: the limits file may set the rest.
pub(super) fn settings(runtime: &Runtime, guard: &Guard<'_>) -> TokenStream {
    let private = runtime.private();
    let Numbers { rate, per, limits, .. } = &guard.numbers;
    let (mut settings, mut rare) = (TokenStream::new(), TokenStream::new());
    if let Some(rate) = rate {
        let rate = checked(runtime, "rate", rate);
        settings.extend(generated!(rate: #rate,));
    }
    if let Some(Per { length, unit }) = *per {
        let length = site::milliseconds(length);
        match unit.map(|unit| site::word(runtime, "CalendarUnit", unit)) {
            Some(unit) => rare.extend(generated!(unit: #private::Some(#unit),)),
            None => settings.extend(generated!(per_ms: #length,)),
        }
    }
    if let Some(zone) = guard.said.time_zone.map(TimeZone::name) {
        rare.extend(generated!(time_zone: #private::Some(#zone),));
    }
    if let Some(limits) = limits {
        let limits = limits.iter().map(|(rate, per)| {
            let (rate, per) = (checked(runtime, "rate", rate), site::milliseconds(*per));
            generated!((#rate, #per))
        });
        rare.extend(generated!(limits: #private::Some(&[#(#limits),*]),));
    }
    if let Some(warm_up) = guard.said.warm_up.map(site::milliseconds) {
        rare.extend(generated!(warm_up_ms: #private::Some(#warm_up),));
    }
    if !rare.is_empty() {
        let rare = generated!(#private::Rare { #rare ..#private::Rare::NONE });
        settings.extend(generated!(rare: #private::Some(&#rare),));
    }
    settings.extend(site::declared(runtime, &guard.numbers));
    if let Some(mode) = guard.said.mode.map(|mode| site::word(runtime, "Mode", mode)) {
        settings.extend(generated!(mode: #private::Some(#mode),));
    }
    if let Some(algorithm) = guard.said.algorithm {
        let algorithm = site::word(runtime, "Algorithm", algorithm);
        settings.extend(generated!(algorithm: #private::Some(#algorithm),));
    }
    if let Some(burst) = &guard.burst {
        let burst = checked(runtime, "burst", burst);
        settings.extend(generated!(burst: #burst,));
    }
    if let Some(wait) = guard.said.wait.map(|wait| site::wait(runtime, wait)) {
        settings.extend(generated!(wait: #private::Some(#wait),));
    }
    if let Some(policy) = guard.said.on_store_error {
        let policy = site::word(runtime, "OnStoreError", policy);
        settings.extend(generated!(on_store_error: #private::Some(#policy),));
    }
    if let Some(outcome) = guard.said.refund_on {
        let outcome = site::word(runtime, "RefundOn", outcome);
        // The function is compiled to refund, even if the limits file switches that off.
        settings.extend(generated!(refund_on: #private::Some(#outcome), judges: true,));
    }
    match guard.permits {
        Permits::Fixed(1) => {}
        Permits::Fixed(permits) => {
            let permits = Literal::u32_unsuffixed(permits);
            settings.extend(generated!(cost: #private::Cost::Literal(#permits),));
        }
        Permits::Computed(_) => settings.extend(generated!(cost: #private::Cost::Computed,)),
    }
    if guard.can_reject() {
        settings.extend(generated!(fallible: true,));
    }
    settings
}

/// Returns a number. That of a constant is checked by rustc, that of a literal was checked before.
fn checked(runtime: &Runtime, check: &str, number: &Expr) -> TokenStream {
    match number {
        Expr::Lit(_) => number.to_token_stream(),
        code => runtime.call(check, ends(code), &code.to_token_stream()),
    }
}
