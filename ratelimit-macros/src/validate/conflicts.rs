//! Settings that cannot apply together, with their spans in the attribute.

use ratelimit_spec::{Merged, Settings};
use syn::Expr;

use super::{Declared, Permits};
use crate::args::{Arg, Args, Number};
use crate::problems::Problems;

/// In the order of precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Entry,
    Annotation,
    Default,
    BuiltIn,
}

/// Reports the conflicts that involve settings of the attribute. `pairs` are its several limits.
pub(super) fn check(
    args: &Args,
    said: &Settings,
    pairs: &[&Expr],
    permits: Option<Permits<'_>>,
    declared: &Declared<'_>,
    problems: &mut Problems,
) {
    let mut layers = vec![(Layer::Annotation, said)];
    let read = Merged::of(&layers);
    layers.splice(0..0, declared.entry_settings().map(|entry| (Layer::Entry, entry)));
    layers.extend(declared.default_settings().map(|default| (Layer::Default, default)));
    let set = Merged::of(&layers).or_built_in(Layer::BuiltIn);
    // An argument that could not be read is already reported.
    let is_read = |name: &&str| args.is_absent(name) || read.source_of(name).is_some();
    let is_here = |name: &&&str| set.source_of(name) == Some(Layer::Annotation);
    // Such a number is checked at startup.
    let is_code = |name: &str| {
        let slot = match name {
            "rate" => &args.rate,
            "burst" => &args.burst,
            _ => return false,
        };
        is_here(&&name) && matches!(slot.value(), Some(Number::Code(_)))
    };
    for conflict in set.check() {
        if matches!(*conflict.settings, ["shards", number] if is_code(number)) {
            continue;
        }
        let here = conflict.settings.iter().filter(is_here).filter_map(|name| args.name_of(name));
        let here: Vec<_> = here.collect();
        let Some(first) = here.first().filter(|_| conflict.settings.iter().all(is_read)) else {
            continue;
        };
        if let Some(pair) = conflict.limit.and_then(|limit| pairs.get(limit)) {
            problems.on(pair, conflict);
            continue;
        }
        problems.at(first.span(), conflict);
        if let Some(other) = here.get(1) {
            problems.at(other.span(), format!("`{other}` is set here"));
        }
    }
    let (Some(Arg { value: Number::Literal { source, .. }, .. }), Some(Permits::Fixed(permits))) =
        (args.permits.given(), permits)
    else {
        return;
    };
    let sizes = ["rate", "burst", "limits", "algorithm"];
    if let Some(conflict) = set.check_cost(permits)
        && sizes.iter().all(is_read)
        && !is_code("rate")
        && !is_code("burst")
    {
        let name = conflict.settings[0];
        match args.name_of(name).filter(|_| is_here(&&name)) {
            Some(other) => {
                problems.on(source, &conflict);
                problems.at(other.span(), format!("`{other}` is set here"));
            }
            None => problems
                .on(source, format!("{conflict} (`{name}` is set at `{}`)", declared.place())),
        }
    }
}
