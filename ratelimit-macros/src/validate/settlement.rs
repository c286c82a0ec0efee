//! Arguments that decide about the permits once the body has run: `refund_on`, `refund_if`, `actual`, `bind`.

use quote::ToTokens;
use syn::Type;

use super::has_word;
use crate::args::Args;
use crate::function::Function;
use crate::problems::Problems;

/// Arguments that need to read the result of the body.
const OF_THE_RESULT: [&str; 3] = ["refund_on", "refund_if", "actual"];

pub(super) fn check(args: &Args, function: &Function, problems: &mut Problems) {
    arguments_fit_together(args, problems);
    result_has_a_name(args, function, problems);
    result_exists(args, function, problems);
    bound_name_is_new(args, function, problems);
}

/// Rejects arguments that decide the same thing twice.
fn arguments_fit_together(args: &Args, problems: &mut Problems) {
    if let (Some(refund_if), Some(refund_on)) = (args.refund_if.name(), args.refund_on.name()) {
        problems.at(
            refund_if.span(),
            "`refund_if` cannot be combined with `refund_on`; remove one of them",
        );
        problems.at(refund_on.span(), "`refund_on` is set here");
    }
    let Some(bind) = args.bind.given() else { return };
    for other in OF_THE_RESULT.iter().filter_map(|other| args.name_of(other)) {
        let permit = &bind.value;
        let instead = if other == "actual" { "settle(actual)" } else { "give_back()" };
        problems.at(
            bind.name.span(),
            format!(
                "`bind` cannot be combined with `{other}`; write `{permit}.{instead}.await` in the body, or remove `bind`"
            ),
        );
        problems.at(other.span(), format!("`{other}` is set here"));
    }
}

/// The result is read before it is returned, so its type must have a name.
fn result_has_a_name(args: &Args, function: &Function, problems: &mut Problems) {
    let Some(argument) = OF_THE_RESULT.iter().find_map(|name| args.name_of(name)) else { return };
    let Some(output) = function.output() else { return };
    if has_word(output.to_token_stream(), "impl") {
        problems.on(
            output,
            format!(
                "`{argument}` requires a named return type, not `impl Trait`; write the concrete type, or \
                 `Box<dyn Trait>`"
            ),
        );
        problems.at(argument.span(), format!("`{argument}` is set here"));
    }
}

/// A function that never returns has no result to read, and no other function can return one in its place. The type `!` can
/// only be written as a return type, so rustc would report our code.
fn result_exists(args: &Args, function: &Function, problems: &mut Problems) {
    let Some(output @ Type::Never(_)) = function.output() else { return };
    for argument in OF_THE_RESULT.iter().filter_map(|name| args.name_of(name)) {
        problems.at(
            argument.span(),
            format!("`{argument}` is never used, because this function never returns; remove it"),
        );
    }
    if args.fallback.name().is_some() {
        problems.on(
            output,
            "`fallback` cannot return a `!`; write `-> std::convert::Infallible`, or remove `fallback`",
        );
    }
}

/// A permit under the name of a parameter would hide the parameter from the body.
fn bound_name_is_new(args: &Args, function: &Function, problems: &mut Problems) {
    let Some(bind) = args.bind.value() else { return };
    if function.names().contains(bind) {
        problems.at(
            bind.span(),
            format!(
                "`{bind}` is already a parameter of `{}`; write another name, such as `bind = granted`",
                function.name()
            ),
        );
    }
}

/// The later of two permits under one name would hide the earlier one.
pub(crate) fn bound_names_differ(all: &[Args], problems: &mut Problems) {
    let names: Vec<_> = all.iter().filter_map(|args| args.bind.value()).collect();
    for (n, name) in names.iter().enumerate() {
        if names[..n].contains(name) {
            problems.at(
                name.span(),
                format!("duplicate variable `{name}`; write a different name for each attribute"),
            );
        }
    }
}
