//! The scripts' calls and replies, for tests that run them directly.

use ratelimit_spec::{Calendar, Penalty};
use redis::{Cmd, Value};

use super::{
    call::{Ask, Tell},
    groups::{Answer, AskGroups, read_groups, runs},
    penalize::{Penalize, read_refused},
    reply::read_look,
    reserve::read_reservations,
    script::{CHARGE, GIVE_BACK, PEEK, RELEASE, RESERVE, SET_RATE, Script, member_id},
    settle::{charge_words, give_back_words, read_charged},
    windows::{Windows, missing},
    write_words,
};
use crate::{
    StoreError,
    store::{
        Charge, Charged, Config, Grant, Group, KeepState, Refused, Reply, Request, Reservation,
        StateKeys, WriteWhen,
    },
};

/// The script's reply for groups: for each group its replies, `None` if it lacks the windows of a calendar,
/// or its error.
pub type Decisions = Vec<Result<Option<Vec<Vec<Reply>>>, StoreError>>;

/// Builds the runtime's call that decides groups, for tests that append their own time or run it many times.
/// `since_us` is when the process received a configuration.
#[must_use]
pub fn script_decide(
    groups: &[Group<'_>],
    since_us: impl Fn(&Request<'_>) -> u64,
    by_name: bool,
) -> Cmd {
    AskGroups { groups, windows: Windows::default() }.since(since_us, by_name)
}

/// Reads the reply to such a call, and adds the windows that it lacks to `windows`.
///
/// # Errors
///
/// As for the call itself.
pub fn script_decisions(
    value: &Value,
    groups: &[Group<'_>],
    windows: &mut CalendarCall,
) -> Result<Decisions, StoreError> {
    let answers = read_groups(value, groups)?.into_iter();
    let decisions = answers.map(|answer| match answer? {
        Answer::Replies(replies) => Ok(Some(replies)),
        Answer::Lacks(missing) => {
            windows.0.lack(missing);
            Ok(None)
        }
    });
    Ok(decisions.collect())
}

fn ask<'a>(script: &'a Script, request: &'a Request<'a>, what: &'a str, last: &'a [u8]) -> Ask<'a> {
    Ask { script, request, what, last, windows: Windows::default() }
}

/// Builds a call that peeks at a limiter, as [`script_decide`].
#[must_use]
pub fn script_peek(request: &Request<'_>, cost: u32, since_us: u64, by_name: bool) -> Cmd {
    ask(&PEEK, request, &cost.to_string(), &member_id()).since(since_us, by_name)
}

/// Reads the reply to such a call by a process with this configuration.
///
/// # Errors
///
/// As for the call itself.
pub fn script_peeked(value: &Value, own: &Config, cost: u32) -> Result<Reply, StoreError> {
    read_look(value, cost, own)
}

/// Builds a call that releases permits, for tests that append their own time.
#[must_use]
pub fn script_release(keys: &StateKeys, permits: u32, by_name: bool) -> Cmd {
    Tell::new(&RELEASE, keys, vec![permits.to_string()]).with_time(by_name)
}

/// Builds a call that sets a configuration explicitly, for tests that append their own time.
#[must_use]
pub fn script_write(
    keys: &StateKeys,
    config: Config,
    when: WriteWhen,
    state: KeepState,
    hold_ms: u64,
    by_name: bool,
) -> Cmd {
    Tell::new(&SET_RATE, keys, write_words(config, when, state, hold_ms)).with_time(by_name)
}

/// Builds a call that reserves permits, as [`script_decide`].
#[must_use]
pub fn script_reserve(request: &Request<'_>, costs: &[u32], within_ms: u64, since_us: u64) -> Cmd {
    let within = within_ms.to_string();
    ask(&RESERVE, request, &runs(costs), within.as_bytes()).since(since_us, false)
}

/// Reads the reply to such a call.
///
/// # Errors
///
/// As for the call itself.
pub fn script_reservations(
    value: &Value,
    request: &Request<'_>,
    costs: &[u32],
) -> Result<Vec<Reservation>, StoreError> {
    read_reservations(value, request, costs)
}

/// Builds a call that charges, as [`script_decide`].
#[must_use]
pub fn script_charge(request: &Request<'_>, charge: Charge, since_us: u64, by_name: bool) -> Cmd {
    let (words, id) = charge_words(&charge);
    ask(&CHARGE, request, &words, &id).since(since_us, by_name)
}

/// Reads the reply to such a call.
///
/// # Errors
///
/// As for the call itself.
pub fn script_charged(
    value: &Value,
    request: &Request<'_>,
) -> Result<(Reply, Charged), StoreError> {
    read_charged(value, request)
}

/// Builds a call that refunds a grant, for tests that append their own time.
#[must_use]
pub fn script_give_back(keys: &StateKeys, grant: &Grant, by_name: bool) -> Cmd {
    Tell::new(&GIVE_BACK, keys, give_back_words(grant)).with_time(by_name)
}

/// Builds a call that records a rejection, for tests that append their own time.
#[must_use]
pub fn script_penalize(keys: &StateKeys, penalty: &Penalty, per_ms: u64, by_name: bool) -> Cmd {
    Penalize { keys, penalty, per_ms }.command(by_name)
}

/// Reads the reply to such a call.
///
/// # Errors
///
/// As for the call itself.
pub fn script_penalized(value: &Value) -> Result<Refused, StoreError> {
    read_refused(value)
}

/// The arguments after the time in such a call: the windows of calendars.
#[derive(Debug, Default)]
pub struct CalendarCall(Windows);

impl CalendarCall {
    /// Creates it for a process with this calendar that found `in_force` active.
    #[must_use]
    pub fn new(own: Option<Calendar>, in_force: Option<Calendar>) -> Self {
        Self(Windows::new([own, in_force]))
    }

    /// Appends the time to use instead of the server's, and the windows around the process's `guess` of it.
    pub fn append(&self, call: &mut Cmd, now: u64, guess: u64) {
        call.arg(now);
        self.0.append(call, 0, || guess);
    }

    /// Returns whether the script lacked windows, which the next call then includes.
    ///
    /// # Errors
    ///
    /// Returns an error if they are of an unknown calendar.
    pub fn lacks(&mut self, value: &Value, own: Option<&Config>) -> Result<bool, StoreError> {
        let missing = missing(value, own)?;
        missing.into_iter().for_each(|missing| self.0.lack(missing));
        Ok(missing.is_some())
    }
}
