//! The settings of a key in the limits file.

use std::sync::Arc;
use std::time::Duration;

use proc_macro2::{Literal, Span, TokenStream};
use quote::ToTokens;
use ratelimit_spec::{
    Limit, LimiterEntry, LimitsFile, OnStoreError, Per, Settings, Template, TimeZone, Wait,
    nearest, nearest_words,
};
use syn::Expr;

use crate::args::Args;
use crate::key::Key;
use crate::limits_file::{Found, Lookup};
use crate::problems::Problems;
use crate::seen;

/// Rate and window, from the annotation, otherwise from the file.
#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) rate: Option<Expr>,
    pub(crate) per: Option<Per>,
    pub(crate) limits: Option<Vec<(Expr, Duration)>>,
    pub(crate) from_file: Option<FromFile>,
}

/// The limits that the file sets, in whole or in part.
pub(crate) enum FromFile {
    One { rate: TokenStream, per: Per, time_zone: TimeZone },
    Several(Arc<[Limit]>),
}

/// The settings that the limits file contributes to an annotation.
pub(crate) struct Declared<'a> {
    /// The span for messages that have no better one.
    caret: Span,
    found: Option<(&'a Found, &'a LimitsFile)>,
    entry: Option<&'a LimiterEntry>,
    /// Whether the file, the key, or its absence from the file was already reported.
    reported: bool,
    /// Whether a file of the workspace is ignored.
    packaged: bool,
}

/// Looks up the key. A key that is not in the file would create a limiter unknown to operators.
pub(crate) fn declared<'a>(
    key: Option<&Key<'_>>,
    place: Span,
    lookup: &'a Lookup,
    problems: &mut Problems,
) -> Declared<'a> {
    let caret = key.map_or(place, |key| key.literal.span());
    let packaged = matches!(lookup, Lookup::Packaged);
    let mut declared = Declared { caret, found: None, entry: None, reported: false, packaged };
    match lookup {
        Lookup::Nothing | Lookup::Packaged => {}
        Lookup::Unreadable(reason) => {
            if seen::is_first(reason, caret) {
                problems.at(caret, reason);
            }
            declared.reported = true;
        }
        Lookup::Found(found) => match found.contents.as_ref() {
            Ok(limits) => declared.found = Some((found, limits)),
            Err(mistakes) => {
                // All annotations find the same mistakes.
                if seen::is_first(&found.name, caret) {
                    for mistake in mistakes {
                        let space = if mistake.position.is_some() { "" } else { " " };
                        problems.at(caret, format!("{}:{space}{mistake}", found.name));
                    }
                }
                declared.reported = true;
            }
        },
    }
    match (key, declared.found) {
        (Some(key), Some((found, limits))) => {
            declared.entry = limits.limiter(key.text());
            if declared.entry.is_none() && limits.strict {
                problems.at(caret, undeclared(key, found, limits));
                declared.reported = true;
            }
        }
        // The key was reported, and the file may declare the corrected one.
        (None, Some(_)) => declared.reported = true,
        (_, None) => {}
    }
    declared
}

fn undeclared(key: &Key<'_>, found: &Found, limits: &LimitsFile) -> String {
    let keys = || limits.limiters.iter().map(|entry| entry.key.as_str());
    let overlaps =
        |other: &&str| Template::parse(other).is_ok_and(|other| other.overlaps(&key.template));
    let near = nearest(key.text(), keys())
        .or_else(|| keys().find(overlaps))
        .or_else(|| nearest_words(key.text(), keys()));
    let near = near.and_then(|near| limits.limiter(near));
    let advice = match near {
        Some(entry) => format!("did you mean `{}` (`{}`)?", entry.key, found.place_of(entry)),
        None => "add it under `limiters`, or write `strict: false` in that file".to_owned(),
    };
    format!("key `{}` is not declared in `{}`; {advice}", key.text(), found.name)
}

impl Declared<'_> {
    fn settings(&self) -> impl Iterator<Item = &Settings> {
        self.entry_settings().into_iter().chain(self.default_settings())
    }

    /// Returns the settings of the key's own entry, which take precedence over the annotation.
    pub(super) fn entry_settings(&self) -> Option<&Settings> {
        self.entry.map(|entry| &entry.settings)
    }

    /// Returns the file's defaults.
    pub(super) fn default_settings(&self) -> Option<&Settings> {
        self.found.map(|(_, limits)| &limits.default)
    }

    fn rate(&self) -> Option<u32> {
        self.settings().find_map(|settings| settings.rate)
    }

    fn per(&self) -> Option<Per> {
        self.settings().find_map(|settings| settings.per)
    }

    fn one(&self, rate: TokenStream, per: Per) -> FromFile {
        let time_zone = self.settings().find_map(|settings| settings.time_zone);
        FromFile::One { rate, per, time_zone: time_zone.unwrap_or_default() }
    }

    /// Returns where the file sets what the annotation does not.
    pub(super) fn place(&self) -> String {
        self.found.map_or_else(String::new, |(found, _)| match self.entry {
            Some(entry) => found.place_of(entry),
            None => found.name.clone(),
        })
    }

    /// Returns whether the file can cause rejections that the annotation excludes.
    pub(super) fn may_reject(&self) -> bool {
        self.settings().any(|settings| {
            settings.wait.is_some_and(|wait| wait != Wait::Forever)
                || settings.on_store_error == Some(OnStoreError::Reject)
        })
    }

    /// Returns the file's several limits, unless a single rate or window takes precedence.
    fn limits(&self, written: bool) -> Option<Arc<[Limit]>> {
        let is_one = |settings: &Settings| settings.rate.is_some() || settings.per.is_some();
        let own = self.entry_settings();
        match own.and_then(|own| own.limits.clone()) {
            Some(limits) => Some(limits),
            None if written || own.is_some_and(is_one) => None,
            None => self.default_settings().and_then(|settings| settings.limits.clone()),
        }
    }

    /// Returns rate and window of a key without an annotation.
    pub(crate) fn alone(&self) -> Numbers {
        let one = || {
            let both = self.rate().map(number).zip(self.per());
            both.map(|(rate, per)| self.one(rate, per))
        };
        let from_file = self.limits(false).map(FromFile::Several).or_else(one);
        Numbers { from_file, ..Numbers::default() }
    }

    /// Every limit needs a rate and a window, from either source.
    pub(super) fn numbers(
        &self,
        args: &Args,
        rate: Option<Expr>,
        per: Option<Per>,
        problems: &mut Problems,
    ) -> Numbers {
        let several = !args.limits.is_absent();
        if several || !args.rate.is_absent() && !args.per.is_absent() {
            return Numbers { rate, per, ..Numbers::default() };
        }
        let written = !args.rate.is_absent() || !args.per.is_absent();
        if let Some(limits) = self.limits(written) {
            let from_file = Some(FromFile::Several(limits));
            return Numbers { rate, per, from_file, ..Numbers::default() };
        }
        let no_rate = args.rate.is_absent() && self.rate().is_none();
        let no_per = args.per.is_absent() && self.per().is_none();
        if !self.reported {
            self.missing(args, no_rate, no_per, problems);
        }
        let declared_rate =
            self.rate().map(number).or_else(|| rate.as_ref().map(ToTokens::to_token_stream));
        let declared = declared_rate.zip(self.per().or(per));
        let from_file = declared.map(|(rate, per)| self.one(rate, per));
        Numbers { rate, per, from_file, ..Numbers::default() }
    }

    fn missing(&self, args: &Args, no_rate: bool, no_per: bool, problems: &mut Problems) {
        let elsewhere = match self.found {
            Some((found, _)) => format!(
                "`{}` does not set {} for this key",
                found.name,
                if no_rate && no_per { "them" } else { "it" }
            ),
            None if self.packaged => {
                "a package is compiled without the limits file of its workspace".to_owned()
            }
            None => "no limits file was found".to_owned(),
        };
        match (no_rate, no_per) {
            (true, true) => problems.at(
                self.caret,
                format!(
                    "missing `rate` and `per`, and {elsewhere}; write `rate = 100, per = \"1s\"`"
                ),
            ),
            (true, false) => {
                let place = args.per.given().map_or(self.caret, |per| per.name.span());
                problems.at(place, format!("missing `rate`, and {elsewhere}; write `rate = 100`"));
            }
            (false, true) => {
                let place = args.rate.given().map_or(self.caret, |rate| rate.name.span());
                problems.at(place, format!("missing `per`, and {elsewhere}; write `per = \"1s\"`"));
            }
            (false, false) => {}
        }
    }
}

fn number(rate: u32) -> TokenStream {
    Literal::u32_unsuffixed(rate).to_token_stream()
}
