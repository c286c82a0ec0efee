//! The commands for a limiter, each built again for every attempt.

use once_cell::sync::Lazy;
use redis::{Cmd, Value};

use super::{
    RedisStore,
    line::Live,
    reply::time_in,
    script::{Script, add_request},
    windows::{MOST_ATTEMPTS, Windows, missing, unsteady},
};
use crate::{
    StoreError, clock,
    store::{Config, Request, StateKeys},
};

/// A command for a limiter, built again for each attempt.
pub(super) trait Call {
    /// Returns the keys that it uses.
    fn keys(&self) -> &StateKeys;

    /// Builds the command; with the script's text if the server does not know its name.
    fn command(&self, live: &Live, by_name: bool) -> Cmd;

    /// Returns whether the call may need no key but the hash of its only limiter.
    fn may_need_hash_alone(&self) -> bool {
        false
    }

    /// Returns the server's time in a reply, in milliseconds, if it has one.
    fn time_in(&self, _reply: &Value) -> Option<u64> {
        None
    }

    /// Returns whether a reply after the deadline is needed, because it contains grants to callers that are gone.
    fn needs_late_reply(&self) -> bool {
        false
    }
}

/// A script that takes a [`Request`].
pub(super) struct Ask<'a> {
    pub(super) script: &'a Script,
    pub(super) request: &'a Request<'a>,
    /// The first argument, and the seventh.
    pub(super) what: &'a str,
    pub(super) last: &'a [u8],
    pub(super) windows: Windows,
}

impl Ask<'_> {
    /// Builds the command, with the time in microseconds at which the process received its configuration.
    pub(super) fn since(&self, since_us: u64, by_name: bool) -> Cmd {
        self.script.on_requests(std::iter::once(self.request), by_name, |command| {
            add_request(command, self.request, self.what, since_us);
            command.arg(self.last);
        })
    }
}

impl Call for Ask<'_> {
    fn keys(&self) -> &StateKeys {
        self.request.keys
    }

    fn command(&self, live: &Live, by_name: bool) -> Cmd {
        let mut command = self.since(live.server_time(self.request.since), by_name);
        // In tests, the eighth argument is the time.
        self.windows.append(&mut command, 1, || live.server_time(clock::instant()) / 1000);
        command
    }

    fn may_need_hash_alone(&self) -> bool {
        self.request.may_have_hash_alone()
    }

    fn time_in(&self, reply: &Value) -> Option<u64> {
        time_in(reply)
    }
}

/// A script that takes a few arguments.
pub(super) struct Tell<'a> {
    pub(super) script: &'a Script,
    pub(super) keys: &'a StateKeys,
    pub(super) words: Vec<String>,
    pub(super) windows: Windows,
}

impl<'a> Tell<'a> {
    /// Creates a call without the windows of a calendar.
    pub(super) fn new(script: &'a Script, keys: &'a StateKeys, words: Vec<String>) -> Self {
        Self { script, keys, words, windows: Windows::default() }
    }

    /// Builds the command for a test that appends the time, after as many arguments as the longest call has.
    #[cfg(feature = "test-util")]
    pub(super) fn with_time(mut self, by_name: bool) -> Cmd {
        self.words.resize(7, String::new());
        let mut command = self.script.on(self.keys, by_name);
        command.arg(&self.words);
        command
    }
}

impl Call for Tell<'_> {
    fn keys(&self) -> &StateKeys {
        self.keys
    }

    fn command(&self, live: &Live, by_name: bool) -> Cmd {
        let mut command = self.script.on(self.keys, by_name);
        command.arg(&self.words);
        let guess = || live.server_time(clock::instant()) / 1000;
        self.windows.append(&mut command, 8 - self.words.len(), guess);
        command
    }
}

/// A command of the server itself, on keys of a limiter.
pub(super) struct Plain<'a> {
    pub(super) name: &'static str,
    pub(super) keys: &'a StateKeys,
    pub(super) of: Of,
}

/// Which of a limiter's keys a command uses.
#[derive(Clone, Copy)]
pub(super) enum Of {
    Config,
    Penalty,
    All,
}

impl Call for Plain<'_> {
    fn keys(&self) -> &StateKeys {
        self.keys
    }

    fn command(&self, _: &Live, _: bool) -> Cmd {
        let (mut command, keys) = (redis::cmd(self.name), self.keys);
        match self.of {
            Of::Config => command.arg(keys.config()),
            Of::Penalty => command.arg(keys.penalty()),
            Of::All => {
                command.arg(keys.config()).arg(keys.counter()).arg(keys.log()).arg(keys.penalty())
            }
        };
        command
    }
}

impl RedisStore {
    /// Runs a script that takes a request.
    pub(super) async fn ask(
        &self,
        script: &Lazy<Script>,
        request: &Request<'_>,
        what: &str,
        last: &[u8],
    ) -> Result<Value, StoreError> {
        let windows = Windows::of([request]);
        let ask = |windows| Ask { script, request, what, last, windows };
        self.run_with_windows(windows, Some(&request.config), ask).await
    }

    /// Runs a call, and repeats it if it lacked the windows of a calendar.
    pub(super) async fn run_with_windows<C: Call>(
        &self,
        mut windows: Windows,
        own: Option<&Config>,
        call: impl Fn(Windows) -> C,
    ) -> Result<Value, StoreError> {
        for _ in 0..MOST_ATTEMPTS {
            let value = self.run(&call(windows.clone())).await?;
            match missing(&value, own)? {
                Some(missing) => windows.lack(missing),
                None => return Ok(value),
            }
        }
        Err(unsteady())
    }
}
