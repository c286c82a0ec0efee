//! The program's own settings: those of the builder, else of the environment, else of the limits file.

use std::{
    env::{self, VarError},
    fs,
    path::Path,
    sync::Mutex,
    time::Duration,
};

use ratelimit_spec::{
    HeaderName, LimitsFile, Network, Quoted, Step, check_prefix, expand_env, format_duration,
    limits_file::{check_deadline, check_max_remembered, check_revision},
};

use super::LimitsBuilder;
#[cfg(feature = "redis-connect")]
use crate::store::redis::Connector;
#[cfg(feature = "tls")]
use crate::store::redis::check_authorities;
use crate::{
    Problem, ProblemKind,
    limits::{file::LoadedFile, proxies::Proxies},
    registry::REMEMBERED,
    report::{Setting, Source},
    store::redis::{Certificates, Root, address::Address},
};

const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);

/// The settings of the program as they apply, all valid.
pub(super) struct Program {
    pub(super) key_prefix: String,
    pub(super) deadline: Duration,
    pub(super) remembered: usize,
    /// As in the report.
    pub(super) shown: [Setting; 2],
    pub(super) proxies: Proxies,
    pub(super) store: Chosen,
}

/// The store that the builder sets.
pub(super) enum Named {
    /// `memory`, or an address.
    At(String),
    #[cfg(feature = "redis-connect")]
    Through(Connector),
}

/// The store that is used.
pub(super) enum Chosen {
    /// The embedded store, because none is set.
    Unset,
    Memory,
    Redis(Address, Certificates),
}

impl LimitsBuilder {
    /// Reads the settings of the program, each once. Adds every problem, and returns `None` if one leaves a setting
    /// without a value.
    pub(super) fn program(
        &self,
        file: Option<&LoadedFile>,
        problems: &mut Vec<Problem>,
    ) -> Option<Program> {
        let key_prefix = sound(self.checked_prefix(file), problems);
        let store = sound(self.store(file), problems);
        let deadline = sound(self.checked_deadline(file), problems);
        let remembered = sound(self.checked_max_remembered(file), problems);
        for checked in [self.check_instances(), self.check_watch(), self.check_revision()] {
            sound(checked, problems);
        }
        let trusted = self.networks(problems);
        let client_ip_header = sound(self.header_name(), problems);
        let ((deadline, shown), (remembered, also_shown)) = (deadline?, remembered?);
        Some(Program {
            key_prefix: key_prefix?,
            deadline,
            remembered,
            shown: [shown, also_shown],
            proxies: Proxies::new(trusted?, client_ip_header?),
            store: store?,
        })
    }

    /// Returns the settings for which the limits file is not asked.
    pub(super) fn chosen(&self) -> Vec<&'static str> {
        let in_environment = variable("RATELIMIT_STORE").is_ok_and(|store| store.is_some());
        let all = [
            ("store", self.store.is_some() || in_environment),
            ("tls_ca", self.tls_ca.is_some()),
            ("key_prefix", self.key_prefix.is_some()),
            ("deadline", self.deadline.is_some()),
            ("max_remembered", self.max_remembered.is_some()),
        ];
        all.into_iter().filter(|(_, chosen)| *chosen).map(|(setting, _)| setting).collect()
    }

    fn checked_deadline(
        &self,
        loaded: Option<&LoadedFile>,
    ) -> Result<(Duration, Setting), Box<Problem>> {
        let written = loaded.and_then(|file| file.limits.deadline);
        let (deadline, source) = nearest(self.deadline, written, DEFAULT_DEADLINE);
        check_deadline(deadline).map_err(|why| refused("deadline", why))?;
        let value = format_duration(deadline);
        Ok((deadline, Setting { name: "deadline", value, source }))
    }

    fn checked_max_remembered(
        &self,
        loaded: Option<&LoadedFile>,
    ) -> Result<(usize, Setting), Box<Problem>> {
        let written = loaded.and_then(|file| file.limits.max_remembered);
        let written = written.and_then(|limiters| usize::try_from(limiters).ok());
        let (limiters, source) = nearest(self.max_remembered, written, REMEMBERED);
        check_max_remembered(limiters).map_err(|why| refused("max_remembered", why))?;
        Ok((limiters, Setting { name: "max_remembered", value: limiters.to_string(), source }))
    }

    fn check_instances(&self) -> Result<(), Box<Problem>> {
        if self.instances == Some(0) {
            let why =
                format!("`instances` cannot be `0`; write a whole number from 1 to {}", u32::MAX);
            return Err(refused("instances", why));
        }
        Ok(())
    }

    /// Checks the interval at which the limits file is read. An interval of 0 would keep a thread busy.
    fn check_watch(&self) -> Result<(), Box<Problem>> {
        if self.watch == Some(Duration::ZERO) {
            let why = "`watch` cannot be `0s`; write `1ms` or longer";
            return Err(refused("watch", why.to_owned()));
        }
        Ok(())
    }

    fn check_revision(&self) -> Result<(), Box<Problem>> {
        let checked = self.revision.map_or(Ok(()), check_revision);
        checked.map_err(|why| refused("revision", why))
    }

    fn checked_prefix(&self, loaded: Option<&LoadedFile>) -> Result<String, Box<Problem>> {
        let checked = |prefix: String| match check_prefix(&prefix) {
            Ok(()) => Ok(prefix),
            Err(why) => Err(refused("key_prefix", format!("{}: {why}", Quoted(&prefix)))),
        };
        match (&self.key_prefix, written(loaded, |limits| &limits.key_prefix)) {
            (Some(prefix), _) => checked(prefix.clone()),
            (None, Some((file, prefix))) => expanded(file, "key_prefix", prefix, checked),
            (None, None) => Ok(String::new()),
        }
    }

    fn store(&self, loaded: Option<&LoadedFile>) -> Result<Chosen, Box<Problem>> {
        // A variable that was read from a file of secrets may end in a line break.
        let address = |store: String| match store.trim() {
            "memory" => Ok(None),
            store => Address::parse(store).map(Some),
        };
        let nearer = match &self.store {
            #[cfg(feature = "redis-connect")]
            Some(Named::Through(connector)) => return self.through(connector),
            Some(Named::At(store)) => Some(store.clone()),
            None => variable("RATELIMIT_STORE")?,
        };
        let address = match (nearer, written(loaded, |limits| &limits.store)) {
            (Some(store), _) => Some(address(store)?),
            (None, Some((file, store))) => Some(expanded(file, "store", store, address)?),
            (None, None) => variable("REDIS_URL")?.map(address).transpose()?,
        };
        Ok(match address {
            None => Chosen::Unset,
            Some(None) => Chosen::Memory,
            Some(Some(address)) => {
                let certificates = self.certificates(loaded, &address)?;
                Chosen::Redis(address, certificates)
            }
        })
    }

    #[cfg(feature = "redis-connect")]
    fn through(&self, connector: &Connector) -> Result<Chosen, Box<Problem>> {
        if self.tls_ca.is_some() {
            let why = "`tls_ca` has no effect with `redis_connect`; trust the certificates in its function";
            return Err(refused("tls_ca", why.to_owned()));
        }
        Ok(Chosen::Redis(Address::by_program(connector.clone()), Certificates::default()))
    }

    /// Returns the builder's trusted proxies, or `None` if one of them is not valid.
    fn networks(&self, problems: &mut Vec<Problem>) -> Option<Option<Vec<Network>>> {
        let Some(proxies) = &self.trusted_proxies else { return Some(None) };
        let read = proxies.iter().map(|proxy| {
            let why = |error| refused("trusted_proxies", format!("in `trusted_proxies`: {error}"));
            sound(proxy.parse().map_err(why), problems)
        });
        // Every one is read, so that all problems are reported.
        let read: Vec<Option<Network>> = read.collect();
        read.into_iter().collect::<Option<_>>().map(Some)
    }

    fn header_name(&self) -> Result<Option<HeaderName>, Box<Problem>> {
        let name = self.client_ip_header.as_deref().map(str::parse).transpose();
        name.map_err(|error| refused("client_ip_header", format!("in `client_ip_header`: {error}")))
    }

    fn certificates(
        &self,
        loaded: Option<&LoadedFile>,
        address: &Address,
    ) -> Result<Certificates, Box<Problem>> {
        let read = |path: &Path| {
            let pem = Mutex::new(read_certificates(path)?);
            let root = Root { file: Some(path.to_owned()), pem };
            // The driver's error names neither the setting nor, of sentinels, the scheme to write.
            address.without_tls().map_or(Ok(root), |why| Err(refused("tls_ca", why)))
        };
        let root = match (&self.tls_ca, written(loaded, |limits| &limits.tls_ca)) {
            (Some(path), _) => Some(read(path)?),
            (None, Some((file, path))) => {
                Some(expanded(file, "tls_ca", path, |path| read(Path::new(&path)))?)
            }
            (None, None) => None,
        };
        Ok(Certificates { root })
    }
}

/// Returns what is valid, or adds the problem.
fn sound<T>(read: Result<T, Box<Problem>>, problems: &mut Vec<Problem>) -> Option<T> {
    read.map_err(|problem| problems.push(*problem)).ok()
}

fn read_certificates(path: &Path) -> Result<Vec<u8>, Box<Problem>> {
    if !cfg!(feature = "tls") {
        let message =
            format!("certificates `{}` require the crate feature `tls`; enable it", path.display());
        return Err(refused("tls_ca", message));
    }
    let pem = fs::read(path).map_err(|error| {
        let message = format!("certificates `{}` cannot be read: {error}", path.display());
        Problem::new(ProblemKind::File, message).about("tls_ca").caused_by(error)
    })?;
    #[cfg(feature = "tls")]
    check_authorities(&pem).map_err(|why| {
        let path = path.display();
        let message = format!(
            "certificates `{path}` cannot be used: {why}; write the certificates of the authorities, in PEM form"
        );
        refused("tls_ca", message)
    })?;
    Ok(pem)
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
