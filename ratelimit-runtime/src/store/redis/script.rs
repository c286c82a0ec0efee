//! The scripts, their arguments and replies.

use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::sync::Lazy;
use ratelimit_spec::{OnDrift, Penalty};
use redis::Cmd;

use super::rule::write_rule;
use crate::{
    clock::whole_ms,
    store::{Assertion, MemberId, Request, StateKeys},
};

/// The greatest whole number up to which scripts count exactly.
const MOST_EXACT: u64 = 1 << 53;

/// Concatenates the texts of files, in the order in which they depend on each other.
macro_rules! text {
    (basics) => {
        concat!(text!(numbers), text!(hash))
    };
    (reconcile) => {
        concat!(text!(history), text!(forget), text!(config))
    };
    (meters) => {
        concat!(
            text!(log),
            text!(counter),
            text!(debt),
            text!(moves),
            text!(backlog),
            text!(bucket),
            text!(bucket_meter),
            text!(warm_up),
            text!(window),
            text!(carry),
            text!(meter),
            text!(pay)
        )
    };
    // Seven arguments and three keys for each limiter; with a penalty, ten arguments and four keys.
    (clock) => {
        concat!("local TIME_AT = #KEYS / 3 * 7 + 1\n", include_str!("lua/clock.lua"), "\n")
    };
    (guarded_clock) => {
        concat!("local TIME_AT = #KEYS / 4 * 10 + 1\n", include_str!("lua/clock.lua"), "\n")
    };
    // For keys that do not belong to a limiter.
    (other_clock) => {
        concat!("local TIME_AT = #KEYS * 3 + 1\n", include_str!("lua/clock.lua"), "\n")
    };
    // Everything needed to decide by every rule, defined by the first group of a call that needs it.
    (general) => {
        concat!(
            "if last and not (ready and reply or decide) then\n",
            // Unlike captured variables, parameters cost a call nothing until then.
            "local function general(ALL_KEYS, ALL_ARGV, now, replies)\n",
            "local KEYS, ARGV = ALL_KEYS, ALL_ARGV\n",
            text!(basics),
            text!(meters),
            text!(reconcile),
            text!(mend),
            text!(costs),
            text!(sliding),
            text!(open),
            text!(group),
            "end\ndecide = general(KEYS, ARGV, now, replies)\nend\n"
        )
    };
    // The fast paths that decide most calls, for each limiter.
    (each_limiter) => {
        concat!(
            "for n = 1, LIMITERS do\n",
            text!(limiter),
            text!(steady),
            text!(steady_log),
            text!(steady_bucket),
            text!(steady_window),
            text!(general),
            text!(grant),
            "end\nreturn LIMITERS == 1 and not decide and only or replies\n"
        )
    };
    ($file:ident) => {
        concat!(include_str!(concat!("lua/", stringify!($file), ".lua")), "\n")
    };
}

macro_rules! script {
    ($($part:ident)*) => { Lazy::new(|| Script::new(concat!($(text!($part)),*))) };
}

/// A script with a second version for calls in which some limiters have a penalty.
macro_rules! guarded {
    ([$($head:ident)*] clock $($part:ident)*) => {
        Lazy::new(|| {
            let plain = concat!($(text!($head),)* text!(clock), $(text!($part)),*);
            let guarded = concat!(
                text!(guarded_clock),
                text!(penalty),
                text!(guard),
                "local function decided()\n",
                $(text!($head),)*
                $(text!($part),)*
                "end\n",
                text!(guarded)
            );
            Script { guarded: Some(Box::new(Script::new(guarded))), ..Script::new(plain) }
        })
    };
}

pub(super) static DECIDE: Lazy<Script> = guarded!([limiters] clock each_limiter);
pub(super) static PEEK: Lazy<Script> = guarded!([] clock basics meters reconcile costs peek);
pub(super) static ASSERT: Lazy<Script> =
    script!(clock basics log counter debt window pay reconcile assert);
pub(super) static RELEASE: Lazy<Script> = script!(clock basics meters release);
pub(super) static RESERVE: Lazy<Script> = guarded!([] clock basics meters reconcile costs reserve);
pub(super) static PENALIZE: Lazy<Script> = script!(other_clock penalty penalize);
pub(super) static CHARGE: Lazy<Script> =
    script!(clock basics meters reconcile mend costs sliding open charge);
pub(super) static GIVE_BACK: Lazy<Script> = script!(clock basics meters give_back);
pub(super) static SET_RATE: Lazy<Script> = script!(clock basics meters reconcile set_rate);
pub(super) static MEMBERS: Lazy<Script> = script!(other_clock members);
pub(super) static READ: Lazy<Script> = script!(clock basics read);
pub(super) static EXPIRE: Lazy<Script> = script!(expire);
pub(super) static CHECK: Lazy<Script> = script!(check);

/// The scripts that are loaded when a connection opens.
///
/// Not a `const`: Rust 1.88 rejects a constant that refers to a `Lazy`.
pub(super) static ALL: [&Lazy<Script>; 4] = [&DECIDE, &RESERVE, &PEEK, &ASSERT];

/// A Lua text with its name in Redis's script cache.
pub(super) struct Script {
    pub(super) text: &'static str,
    sha: String,
    /// The version for calls in which some limiters have a penalty; see `lua/guard.lua`.
    guarded: Option<Box<Script>>,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, sha: redis::Script::new(text).get_hash().to_owned(), guarded: None }
    }

    /// Builds the call on a limiter's keys, by name, or by text for a server that does not know the name.
    pub(super) fn on(&self, keys: &StateKeys, by_name: bool) -> Cmd {
        self.on_all(1, std::iter::once(keys), by_name)
    }

    /// Builds the call for these requests.
    pub(super) fn on_requests<'a>(
        &self,
        requests: impl Iterator<Item = &'a Request<'a>> + Clone,
        by_name: bool,
        mut words: impl FnMut(&mut Cmd),
    ) -> Cmd {
        let keys = requests.clone().map(|request| request.keys);
        let guarded = self.guarded.as_deref();
        let guarded = guarded.filter(|_| requests.clone().any(|one| one.penalty.is_some()));
        let Some(guarded) = guarded else {
            let mut command = self.on_all(keys.clone().count(), keys, by_name);
            words(&mut command);
            return command;
        };
        let mut all = Vec::new();
        keys.clone()
            .for_each(|keys| all.extend([keys.config().to_owned(), keys.counter(), keys.log()]));
        all.extend(keys.map(StateKeys::penalty));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut command = guarded.on_keys(&all, by_name);
        words(&mut command);
        for penalty in requests.map(|request| request.penalty) {
            match penalty {
                Some(Penalty { after, block, up_to }) => {
                    command.arg(after).arg(whole_ms(*block)).arg(whole_ms(*up_to))
                }
                None => command.arg(&["", "", ""]),
            };
        }
        command
    }

    /// Builds the call on keys that do not belong to a limiter.
    pub(super) fn on_keys(&self, keys: &[&str], by_name: bool) -> Cmd {
        let mut command = redis::cmd(if by_name { "EVALSHA" } else { "EVAL" });
        command.arg(if by_name { &*self.sha } else { self.text }).arg(keys.len()).arg(keys);
        command
    }

    /// Builds the call on the keys of several limiters.
    pub(super) fn on_all<'a>(
        &self,
        count: usize,
        limiters: impl Iterator<Item = &'a StateKeys>,
        by_name: bool,
    ) -> Cmd {
        let script = if by_name { &*self.sha } else { self.text };
        // Enough for names of usual length, so that it does not grow.
        let mut command = Cmd::with_capacity(3 + 10 * count, script.len() + 256 * count);
        command.arg(if by_name { "EVALSHA" } else { "EVAL" }).arg(script).arg(count * 3);
        for keys in limiters {
            command.arg(keys.config()).arg(keys.counter()).arg(keys.log());
        }
        command
    }
}

/// Adds the first six of the seven arguments of a request: `what` it is for, and five that are the same for every script.
pub(super) fn add_request(command: &mut Cmd, request: &Request<'_>, what: &str, since_us: u64) {
    let Request { config, assertion, .. } = request;
    command.arg(what).arg(config.rate).arg(config.per_ms).arg(write_rule(config));
    command.arg(&origin(request, since_us)[..]);
    if let (Some(gone), Assertion::Steady) = (request.abandons, assertion) {
        command.arg(format!("abandon {gone}"));
        return;
    }
    command.arg(match assertion {
        Assertion::Steady => "steady",
        Assertion::Follow { first: true } => "follow",
        Assertion::Follow { first: false } => "following",
        Assertion::First(OnDrift::Carry) => "carry",
        Assertion::First(_) => "reset",
    });
}

/// Encodes since when the process has its configuration, its id, the keep-alive and the revision: the fifth
/// argument in `lua/limiter.lua`.
fn origin(request: &Request<'_>, since_us: u64) -> Vec<u8> {
    let mut origin = Vec::with_capacity(40);
    origin.extend(&since_us.min(MOST_EXACT).to_le_bytes()[..7]);
    origin.extend(MemberId::bits(request.member).to_be_bytes());
    origin.extend(request.config.keep_alive_ms.to_string().into_bytes());
    if request.revision > 0 {
        origin.push(b' ');
        origin.extend(request.revision.to_string().into_bytes());
    }
    origin
}

/// Builds a write that only a working master with free memory accepts. It changes a key that no process ever
/// creates, so it changes nothing and the reply is nil.
pub(super) fn probe(keys: &StateKeys) -> Cmd {
    let mut command = redis::cmd("SET");
    command.arg(format!("{}:probe", keys.log())).arg("").arg("XX");
    command
}

/// Builds the call of a script that no server has.
pub(super) fn unknown() -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg("0".repeat(40)).arg(0);
    command
}

/// Returns an id for a log member as text.
pub(super) fn member_text() -> String {
    format!("{:016x}", u64::from_be_bytes(member_id()))
}

/// Returns an id for a log member: a random number of this process, and a counter. Processes that were forked from one
/// have its random number and its counter, and only the process id differs.
pub(super) fn member_id() -> [u8; 8] {
    static PROCESS: Lazy<u32> = Lazy::new(|| {
        use std::hash::{BuildHasher, RandomState};
        let bytes = RandomState::new().hash_one(0).to_le_bytes();
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    });
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes();
    let process = (*PROCESS ^ std::process::id()).to_le_bytes();
    [process[0], process[1], process[2], process[3], count[0], count[1], count[2], count[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_ids_are_never_the_same() {
        assert_ne!(member_id(), member_id());
    }
}
