//! The program's own settings: those of the builder, else of the environment, else of the limits file.

use std::{
    env::{self, VarError},
    fs,
    path::Path,
    time::Duration,
};

use ratelimit_spec::{
    Network, check_prefix, expand_env, format_duration,
    limits_file::{check_deadline, check_max_remembered, check_revision},
};

use super::LimitsBuilder;
use crate::{
    Problem, ProblemKind, SetupError,
    events::{Event, Events},
    limits::file,
    registry::REMEMBERED,
    report::{Setting, Source},
    store::redis::{Certificates, address::Address},
};

const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);

impl LimitsBuilder {
    pub(super) fn checked_deadline(
        &self,
        loaded: Option<&file::LoadedFile>,
    ) -> Result<(Duration, Setting), SetupError> {
        let written = loaded.and_then(|file| file.limits.deadline);
        let (deadline, source) = nearest(self.deadline, written, DEFAULT_DEADLINE);
        check_deadline(deadline).map_err(|why| refused("deadline", why))?;
        let value = format_duration(deadline);
        Ok((deadline, Setting { name: "deadline", value, source }))
    }

    pub(super) fn checked_max_remembered(
        &self,
        loaded: Option<&file::LoadedFile>,
    ) -> Result<(usize, Setting), SetupError> {
        let written = loaded.and_then(|file| file.limits.max_remembered);
        let written = written.and_then(|limiters| usize::try_from(limiters).ok());
        let (limiters, source) = nearest(self.max_remembered, written, REMEMBERED);
        check_max_remembered(limiters).map_err(|why| refused("max_remembered", why))?;
        Ok((limiters, Setting { name: "max_remembered", value: limiters.to_string(), source }))
    }

    /// Returns the builder's number of processes, which takes precedence over that of the limits file.
    pub(super) fn checked_instances(&self) -> Result<Option<u32>, SetupError> {
        if self.instances == Some(0) {
            let why =
                format!("`instances` cannot be `0`; write a whole number from 1 to {}", u32::MAX);
            return Err(refused("instances", why));
        }
        Ok(self.instances)
    }

    /// Returns the interval at which the limits file is checked. An interval of 0 would keep a thread busy.
    pub(super) fn checked_watch(&self) -> Result<Option<Duration>, SetupError> {
        if self.watch == Some(Duration::ZERO) {
            return Err(refused(
                "watch",
                "`watch` cannot be `0s`; write `1ms` or longer".to_owned(),
            ));
        }
        Ok(self.watch)
    }

    /// Returns the builder's revision, which takes precedence over that of each reading of the limits file.
    pub(super) fn checked_revision(&self) -> Result<Option<u64>, SetupError> {
        let checked = self.revision.map(check_revision).transpose();
        checked.map_err(|why| refused("revision", why))?;
        Ok(self.revision)
    }

    pub(super) fn checked_prefix(
        &self,
        loaded: Option<&file::LoadedFile>,
    ) -> Result<String, SetupError> {
        let written = loaded.and_then(|file| file.limits.key_prefix.as_deref());
        let prefix = match (&self.key_prefix, written) {
            (Some(prefix), _) => prefix.clone(),
            (None, Some(prefix)) => expanded("key_prefix", prefix)?,
            (None, None) => String::new(),
        };
        check_prefix(&prefix)
            .map_err(|why| refused("key_prefix", format!("`{}`: {why}", prefix.escape_debug())))?;
        Ok(prefix)
    }

    /// Returns the store's address; `None` for the embedded store.
    pub(super) fn address(
        &self,
        loaded: Option<&file::LoadedFile>,
        events: &Events,
    ) -> Result<Option<Address>, SetupError> {
        let written = loaded.and_then(|file| file.limits.store.as_deref());
        let store = match (&self.store, written) {
            (Some(store), _) => Some(store.clone()),
            (None, written) => match (variable("RATELIMIT_STORE")?, written) {
                (Some(store), _) => Some(store),
                (None, Some(store)) => Some(expanded("store", store)?),
                (None, None) => variable("REDIS_URL")?,
            },
        };
        match store.as_deref() {
            None => {
                events.emit(&Event::EmbeddedStore);
                Ok(None)
            }
            Some("memory") => Ok(None),
            Some(address) => Address::parse(address).map(Some),
        }
    }

    pub(super) fn networks(&self) -> Result<Option<Vec<Network>>, SetupError> {
        let Some(proxies) = &self.trusted_proxies else { return Ok(None) };
        let (mut networks, mut problems) = (Vec::new(), Vec::new());
        for proxy in proxies {
            match proxy.parse() {
                Ok(network) => networks.push(network),
                Err(error) => {
                    let message = format!("in `trusted_proxies`: {error}");
                    let problem = Problem::new(ProblemKind::Setting, message);
                    problems.push(problem.about("trusted_proxies"));
                }
            }
        }
        if problems.is_empty() { Ok(Some(networks)) } else { Err(SetupError::new(problems)) }
    }

    pub(super) fn certificates(
        &self,
        loaded: Option<&file::LoadedFile>,
    ) -> Result<Certificates, SetupError> {
        let written = loaded.and_then(|file| file.limits.tls_ca.as_deref());
        let ca = match (&self.tls_ca, written) {
            (Some(path), _) => Some(path.clone()),
            (None, Some(path)) => Some(expanded("tls_ca", path)?.into()),
            (None, None) => None,
        };
        let root = ca.as_deref().map(read_certificates).transpose()?;
        Ok(Certificates { root })
    }
}

fn read_certificates(path: &Path) -> Result<Vec<u8>, SetupError> {
    if !cfg!(feature = "tls") {
        let message =
            format!("certificates `{}` require the crate feature `tls`; enable it", path.display());
        return Err(Problem::new(ProblemKind::Setting, message).about("tls_ca").into());
    }
    fs::read(path).map_err(|error| {
        let message = format!("certificates `{}` cannot be read: {error}", path.display());
        Problem::new(ProblemKind::File, message).about("tls_ca").caused_by(error).into()
    })
}

/// Returns a variable of the environment, unless it is unset or empty.
fn variable(name: &'static str) -> Result<Option<String>, SetupError> {
    match env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(refused("store", format!("the variable `{name}` is not UTF-8; write it as UTF-8")))
        }
    }
}

fn nearest<T>(built: Option<T>, written: Option<T>, default: T) -> (T, Source) {
    match (built, written) {
        (Some(built), _) => (built, Source::Builder),
        (None, Some(written)) => (written, Source::LimitsFile),
        (None, None) => (default, Source::BuiltIn),
    }
}

fn refused(setting: &'static str, why: String) -> SetupError {
    Problem::new(ProblemKind::Setting, why).about(setting).into()
}

/// Replaces variables in the text by the environment's values.
fn expanded(field: &'static str, text: &str) -> Result<String, SetupError> {
    expand_env(text, |name| env::var(name).ok())
        .map_err(|why| format!("`{field}` in the limits file: {why}"))
        .map_err(|message| refused(field, message))
}
