//! The program's own settings: those of the builder, else of the environment, else of the limits file.

use std::{
    env::{self, VarError},
    fs,
    path::Path,
    time::Duration,
};

use ratelimit_spec::{
    LimitsFile, Network, Step, check_prefix, expand_env, format_duration,
    limits_file::{check_deadline, check_max_remembered, check_revision},
};

use super::LimitsBuilder;
use crate::{
    Problem, ProblemKind, SetupError,
    limits::file::LoadedFile,
    registry::REMEMBERED,
    report::{Setting, Source},
    store::redis::{Certificates, address::Address},
};

const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);

impl LimitsBuilder {
    /// Returns the problems of what is read at startup alone: the key prefix and the store.
    pub(super) fn problems(&self, file: &LoadedFile) -> Vec<Problem> {
        let address = self.address(Some(file), || {});
        let certificates = match &address {
            Ok(Some(_)) => self.certificates(Some(file)).err(),
            Ok(None) | Err(_) => None,
        };
        let problems = [self.checked_prefix(Some(file)).err(), address.err(), certificates];
        problems.into_iter().flatten().map(|problem| *problem).collect()
    }

    pub(super) fn checked_deadline(
        &self,
        loaded: Option<&LoadedFile>,
    ) -> Result<(Duration, Setting), SetupError> {
        let written = loaded.and_then(|file| file.limits.deadline);
        let (deadline, source) = nearest(self.deadline, written, DEFAULT_DEADLINE);
        check_deadline(deadline).map_err(|why| refused("deadline", why))?;
        let value = format_duration(deadline);
        Ok((deadline, Setting { name: "deadline", value, source }))
    }

    pub(super) fn checked_max_remembered(
        &self,
        loaded: Option<&LoadedFile>,
    ) -> Result<(usize, Setting), SetupError> {
        let written = loaded.and_then(|file| file.limits.max_remembered);
        let written = written.and_then(|limiters| usize::try_from(limiters).ok());
        let (limiters, source) = nearest(self.max_remembered, written, REMEMBERED);
        check_max_remembered(limiters).map_err(|why| refused("max_remembered", why))?;
        Ok((limiters, Setting { name: "max_remembered", value: limiters.to_string(), source }))
    }

    /// Returns the builder's number of processes, which takes precedence over that of the limits file.
    pub(super) fn checked_instances(&self) -> Result<Option<u32>, Box<Problem>> {
        if self.instances == Some(0) {
            let why =
                format!("`instances` cannot be `0`; write a whole number from 1 to {}", u32::MAX);
            return Err(refused("instances", why));
        }
        Ok(self.instances)
    }

    /// Returns the interval at which the limits file is checked. An interval of 0 would keep a thread busy.
    pub(super) fn checked_watch(&self) -> Result<Option<Duration>, Box<Problem>> {
        if self.watch == Some(Duration::ZERO) {
            let why = "`watch` cannot be `0s`; write `1ms` or longer";
            return Err(refused("watch", why.to_owned()));
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
        loaded: Option<&LoadedFile>,
    ) -> Result<String, Box<Problem>> {
        let checked = |prefix: String| match check_prefix(&prefix) {
            Ok(()) => Ok(prefix),
            Err(why) => Err(refused("key_prefix", format!("`{}`: {why}", prefix.escape_debug()))),
        };
        match (&self.key_prefix, written(loaded, |limits| &limits.key_prefix)) {
            (Some(prefix), _) => checked(prefix.clone()),
            (None, Some((file, prefix))) => expanded(file, "key_prefix", prefix, checked),
            (None, None) => Ok(String::new()),
        }
    }

    /// Returns the store's address; `None` for the embedded store, also if none is set.
    pub(super) fn address(
        &self,
        loaded: Option<&LoadedFile>,
        unset: impl FnOnce(),
    ) -> Result<Option<Address>, Box<Problem>> {
        let address = |store: String| match &*store {
            "memory" => Ok(None),
            store => Address::parse(store).map(Some),
        };
        let nearer = match &self.store {
            Some(store) => Some(store.clone()),
            None => variable("RATELIMIT_STORE")?,
        };
        match (nearer, written(loaded, |limits| &limits.store)) {
            (Some(store), _) => address(store),
            (None, Some((file, store))) => expanded(file, "store", store, address),
            (None, None) => match variable("REDIS_URL")? {
                Some(store) => address(store),
                None => {
                    unset();
                    Ok(None)
                }
            },
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
        loaded: Option<&LoadedFile>,
    ) -> Result<Certificates, Box<Problem>> {
        let root = match (&self.tls_ca, written(loaded, |limits| &limits.tls_ca)) {
            (Some(path), _) => Some(read_certificates(path)?),
            (None, Some((file, path))) => {
                Some(expanded(file, "tls_ca", path, |path| read_certificates(Path::new(&path)))?)
            }
            (None, None) => None,
        };
        Ok(Certificates { root })
    }
}

fn read_certificates(path: &Path) -> Result<Vec<u8>, Box<Problem>> {
    if !cfg!(feature = "tls") {
        let message =
            format!("certificates `{}` require the crate feature `tls`; enable it", path.display());
        return Err(refused("tls_ca", message));
    }
    fs::read(path).map_err(|error| {
        let message = format!("certificates `{}` cannot be read: {error}", path.display());
        Problem::new(ProblemKind::File, message).about("tls_ca").caused_by(error).into()
    })
}

/// Returns a variable of the environment, unless it is unset or empty.
fn variable(name: &'static str) -> Result<Option<String>, Box<Problem>> {
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

fn refused(setting: &'static str, why: String) -> Box<Problem> {
    Problem::new(ProblemKind::Setting, why).about(setting).into()
}

/// Returns the text of a field of the limits file, if it is set there.
fn written(
    loaded: Option<&LoadedFile>,
    field: impl FnOnce(&LimitsFile) -> &Option<String>,
) -> Option<(&LoadedFile, &str)> {
    let file = loaded?;
    Some((file, field(&file.limits).as_deref()?))
}

/// Replaces variables in the text of a field by the environment's values, and reads the result. A problem is that of
/// the field.
fn expanded<T>(
    file: &LoadedFile,
    field: &'static str,
    text: &str,
    read: impl FnOnce(String) -> Result<T, Box<Problem>>,
) -> Result<T, Box<Problem>> {
    expand_env(text, |name| env::var(name).ok())
        .map_err(|why| refused(field, format!("`{field}`: {why}")))
        .and_then(read)
        .map_err(|problem| problem.at(file.place(&[Step::Key(field)])).into())
}
