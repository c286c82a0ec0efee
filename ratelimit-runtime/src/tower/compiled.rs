//! A validated layer: finds the limiters of a request and takes its permits.

use std::sync::Arc;

use http::{request, response};
use ratelimit_spec::{KeyName, Placeholder, Template};

use super::{
    member::{Member, Value, WriteValue},
    per_limits::PerLimits,
};
use crate::{
    Event, Limits, Permit, Problem, ProblemKind, Rejection, SetupError, key,
    limiter::{self, Claim, Core},
    registry::Declared,
    web::{ClientIp, Headers, peer_of, unknown_peer},
};

/// The placeholder that is the client's address unless a value is set for it.
const IP: &str = "ip";

pub(super) struct Compiled {
    members: Vec<CompiledMember>,
    pub(super) headers: Headers,
    pub(super) limits: Option<Limits>,
}

struct CompiledMember {
    written: Member,
    template: Template,
    /// What writes the value of each placeholder; `None` for the client's address.
    values: Vec<Option<Arc<WriteValue>>>,
    known: PerLimits<Arc<Declared>>,
}

/// The permits that a request takes from one limiter.
struct Wanted<'a> {
    member: &'a CompiledMember,
    declared: Arc<Declared>,
    /// `None` for a template without placeholders.
    name: Option<KeyName>,
    permits: u64,
}

/// The permits that a request holds: `None` for a limit that exempts it.
pub(super) type Held = Vec<Option<Permit>>;

/// A request without the address of its peer, for a key that has it.
struct UnknownPeer;

/// A request whose limiters are known.
pub(super) enum Started {
    /// The request needed neither the store nor a wait.
    Held(Held),
    /// What it takes from each limit; `None` for a limit that exempts it.
    Claims(Vec<Option<Claim>>),
}

impl Compiled {
    pub(super) fn new(
        written: &[Member],
        headers: Headers,
        limits: Option<Limits>,
    ) -> Result<Self, SetupError> {
        let (mut members, mut problems) = (Vec::new(), Vec::new());
        for member in written {
            match Template::parse(&member.template) {
                Ok(template) => {
                    problems.extend(problems_of(member, &template));
                    let value = |it| value_of(member, it).map(|value| Arc::clone(&value.write));
                    let values = template.placeholders().iter().map(value).collect();
                    let (written, known) = (member.clone(), PerLimits::new());
                    members.push(CompiledMember { written, template, values, known });
                }
                Err(error) => {
                    problems.push(format!("in the limit `{}`: {error}", &**member.template));
                }
            }
        }
        for (n, member) in members.iter().enumerate() {
            let same =
                members[..n].iter().filter(|other| other.template.overlaps(&member.template));
            problems.extend(same.map(|other| problem_of_joined(&other.template, &member.template)));
        }
        let used = |value: &Value| {
            let mut placeholders = members.iter().flat_map(|member| member.template.placeholders());
            placeholders.any(|placeholder| is_of(value, placeholder))
        };
        for member in &members {
            for value in member.written.values.iter().filter(|value| !used(value)) {
                problems.push(format!(
                    "the limit `{}` has no placeholder `{{{name}}}`; add it to the template, or remove \
                     `.key(\"{name}\", ..)`",
                    member.template.text(),
                    name = value.name
                ));
            }
        }
        if problems.is_empty() {
            Ok(Self { members, headers, limits })
        } else {
            let problem = |text| Problem::new(ProblemKind::Setting, text);
            Err(SetupError::new(problems.into_iter().map(problem).collect()))
        }
    }

    /// Finds the limiters of a request and its permits; takes the permits if that needs neither the store nor a wait.
    pub(super) fn start(
        &self,
        limits: &Limits,
        request: &request::Parts,
    ) -> Result<Started, Rejection> {
        let mut claims = Vec::new();
        for member in &self.members {
            let Some(wanted) = member.wanted(limits, request)? else {
                claims.push(None);
                continue;
            };
            let core = match self.members.len() {
                1 => match wanted.at_once(limits) {
                    Ok(permit) => return Ok(Started::Held(vec![Some(permit?)])),
                    Err(core) => core,
                },
                _ => wanted.core(limits),
            };
            let wait = core.wait_if_set(limits.services());
            claims.push(Some(Claim { core, permits: wanted.permits, wait, fallible: true }));
        }
        let is_exempt = claims.iter().all(Option::is_none);
        Ok(if is_exempt { Started::Held(Vec::new()) } else { Started::Claims(claims) })
    }

    /// Settles the permits of a request by its response.
    pub(super) fn settle(&self, held: &mut Held, response: &response::Parts) {
        for (permit, member) in held.iter_mut().zip(&self.members) {
            let Some(permit) = permit else { continue };
            let Member { refund_if, actual, .. } = &member.written;
            let refunded = refund_if.as_ref().is_some_and(|refund_if| refund_if(response));
            let actual = || actual.as_ref().and_then(|actual| actual(response));
            // A recorded cost is settled when the permit is dropped.
            if let Some(used) = if refunded { Some(0) } else { actual() } {
                permit.correct(used);
            }
        }
    }
}

impl Wanted<'_> {
    /// Decides a request that needs neither the store nor a wait. Returns the limiter of any other request.
    fn at_once(&self, limits: &Limits) -> Result<Result<Permit, Rejection>, Arc<Core>> {
        let services = limits.services();
        let permits = u32::try_from(self.permits).map_err(|_| self.core(limits))?;
        let Member { settings, refund_if, actual, .. } = &self.member.written;
        let (family, given) = (&self.declared.family, settings.as_ref());
        let settles = refund_if.is_some() || actual.is_some();
        if let Some(name) = &self.name
            && !settles
            && let Some(decided) =
                limiter::decide_by_name(services, family, name, permits, given, |it| it.requests)
        {
            return Ok(decided.map(Permit::unsettled));
        }
        let core = self.core(limits);
        let reply = core.acquire_at_once(services, permits, || core.wait_if_set(services));
        let permit = |granted| Permit::at_once(&core, granted, permits);
        reply.map(|reply| reply.map(permit)).ok_or_else(|| Arc::clone(&core))
    }

    fn core(&self, limits: &Limits) -> Arc<Core> {
        let Self { member, declared, name, .. } = self;
        let name = name.as_deref().unwrap_or(&declared.family.key);
        declared.core_given(limits.services(), name, member.written.settings.as_ref())
    }
}

impl CompiledMember {
    /// Returns the permits that a request takes, unless it is exempt, or its peer is unknown and the limiter disabled.
    fn wanted(
        &self,
        limits: &Limits,
        request: &request::Parts,
    ) -> Result<Option<Wanted<'_>>, Rejection> {
        let Member { skip_if, permits, .. } = &self.written;
        if skip_if.as_ref().is_some_and(|skip_if| skip_if(request)) {
            return Ok(None);
        }
        let rendered = (!self.template.is_static()).then(|| self.name(limits, request));
        let name = match rendered.transpose() {
            Ok(name) => name,
            Err(UnknownPeer) if self.is_disabled(limits) => return Ok(None),
            Err(UnknownPeer) => return Err(self.rejection(limits)),
        };
        Ok(Some(Wanted {
            member: self,
            name,
            declared: self.declared(limits),
            permits: permits.as_ref().map_or(1, |permits| permits(request)),
        }))
    }

    fn is_disabled(&self, limits: &Limits) -> bool {
        let (current, declared) = (limits.services().current(), self.declared(limits));
        let effective = current.resolve(&declared.family, None, self.written.settings.as_ref());
        effective.is_ok_and(|effective| !effective.set.enabled())
    }

    /// Rejects a request whose peer is unknown.
    fn rejection(&self, limits: &Limits) -> Rejection {
        let family = &self.declared(limits).family;
        let rejection = unknown_peer(limits, &family.key);
        family.count_rejected(&limits.services().events, &rejection);
        rejection
    }

    /// Renders the key.
    fn name(&self, limits: &Limits, request: &request::Parts) -> Result<KeyName, UnknownPeer> {
        self.template.render(|at, writer| {
            match &self.values[at] {
                Some(write) => write(request, writer),
                None => match peer_of(&request.extensions) {
                    Some(peer) => {
                        key::write(&ClientIp::of(limits, peer, &request.headers), writer);
                    }
                    None if self.template.placeholders()[at].optional => writer.absent(),
                    None => return Err(UnknownPeer),
                },
            }
            Ok(())
        })
    }

    fn declared(&self, limits: &Limits) -> Arc<Declared> {
        self.known.with(limits, || self.find(limits), Arc::clone)
    }

    // Apart, because only the first request of a layer does it.
    #[cold]
    fn find(&self, limits: &Limits) -> Arc<Declared> {
        let given = self.written.settings.as_ref();
        let declared = limits.registry().of_template(&self.template, given);
        self.report_difference(limits, &declared);
        declared
    }

    /// Reports that another layer gave the limiters other settings.
    fn report_difference(&self, limits: &Limits, declared: &Declared) {
        let family = &declared.family;
        let (given, first) = (&self.written.settings, family.given.load());
        if let (Some(given), Some(first)) = (given, &*first)
            && *given != **first
        {
            let limiter = Arc::clone(&family.key);
            limits.services().events.emit(&Event::LayersDiffer { limiter });
        }
    }
}

/// A request would take from one limiter twice, which no store decides in one step.
fn problem_of_joined(one: &Template, other: &Template) -> String {
    let (one, other) = (one.text(), other.text());
    if one == other {
        return format!("the limit `{one}` is joined to itself; remove one of them");
    }
    format!(
        "the limits `{one}` and `{other}` are joined, but can be the same key; change the text in front of a \
         placeholder"
    )
}

/// Returns the last value that was set for a placeholder.
fn value_of<'a>(member: &'a Member, placeholder: &Placeholder) -> Option<&'a Value> {
    member.values.iter().rev().find(|value| is_of(value, placeholder))
}

fn is_of(value: &Value, placeholder: &Placeholder) -> bool {
    match &placeholder.path[..] {
        [name] => *name == value.name,
        path => path.join(".") == value.name,
    }
}

/// Returns the placeholders without a value, and optional values without a `?` in the template.
fn problems_of(member: &Member, template: &Template) -> Vec<String> {
    let problem = |placeholder: &Placeholder| {
        let (name, limit) = (placeholder.path.join("."), template.text());
        match value_of(member, placeholder) {
            Some(value) if value.is_optional && !placeholder.optional => Some(format!(
                "`{{{name}}}` of the limit `{limit}` may have no value; write `{{{name}?}}`, and all \
                 requests without one share a limiter"
            )),
            None if name != IP => Some(format!(
                "`{{{name}}}` of the limit `{limit}` has no value; add `.key(\"{name}\", ..)`"
            )),
            _ => None,
        }
    };
    template.placeholders().iter().filter_map(problem).collect()
}
