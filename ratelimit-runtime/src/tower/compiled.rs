//! A layer that was checked: finds the limiters of a request and takes its permits.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::{request, response};
use ratelimit_spec::{KeyName, KeyWriter, Placeholder, Template};

use super::member::{Member, Value};
use crate::{
    Limits, Permit, Problem, ProblemKind, Rejection, SetupError,
    key::Displayed,
    limiter::{self, Claim, Core},
    registry::Declared,
    web::{ClientIp, Headers, peer_of, unknown_peer},
};

/// The placeholder that is the client's address unless it has a value.
const IP: &str = "ip";

pub(super) struct Compiled {
    members: Vec<CompiledMember>,
    pub(super) headers: Headers,
    pub(super) limits: Option<Limits>,
}

struct CompiledMember {
    member: Member,
    template: Template,
    known: ArcSwapOption<Known>,
}

/// The limiters of a template, and whose limits they belong to.
struct Known {
    limits: u64,
    declared: Arc<Declared>,
}

/// What a request holds, of which limits.
pub(super) type Held = Vec<(usize, Permit)>;

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
                    let known = ArcSwapOption::const_empty();
                    members.push(CompiledMember { member: member.clone(), template, known });
                }
                Err(error) => {
                    problems.push(format!("in the limit `{}`: {error}", &**member.template));
                }
            }
        }
        let used = |value: &Value| {
            let of_value = |placeholder: &Placeholder| placeholder.path.join(".") == value.name;
            members.iter().any(|member| member.template.placeholders().iter().any(of_value))
        };
        for member in &members {
            for value in member.member.values.iter().filter(|value| !used(value)) {
                problems.push(format!(
                    "`{}` is no placeholder of the limit `{}`",
                    value.name,
                    member.template.text()
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

    /// Finds the limiters of a request, and what it takes from each.
    pub(super) fn claims(
        &self,
        limits: &Limits,
        request: &request::Parts,
    ) -> Result<Vec<(usize, Claim)>, Rejection> {
        let mut claims = Vec::with_capacity(self.members.len());
        for (n, member) in self.members.iter().enumerate() {
            if let Some(claim) = member.claim(limits, request)? {
                claims.push((n, claim));
            }
        }
        Ok(claims)
    }

    /// Settles what a request holds, by its response.
    pub(super) fn settle(&self, held: Held, response: &response::Parts) {
        for (n, permit) in held {
            let Member { refund_if, actual, .. } = &self.members[n].member;
            let refunded = refund_if.as_ref().is_some_and(|refund_if| refund_if(response));
            let actual = || actual.as_ref().and_then(|actual| actual(response));
            // What is recorded is settled when the permit is dropped.
            if let Some(used) = if refunded { Some(0) } else { actual() } {
                permit.record(used);
            }
        }
    }
}

/// Takes all permits or none.
pub(super) async fn take(limits: &Limits, claims: Vec<(usize, Claim)>) -> Result<Held, Rejection> {
    if let [(n, claim)] = &claims[..]
        && let Ok(permits) = u32::try_from(claim.permits)
        && let Some(granted) = claim.core.granted_at_once(limits.services(), permits, claim.wait)
    {
        return Ok(vec![(*n, Permit::new(limits.services(), granted?))]);
    }
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let (positions, claims): (Vec<_>, Vec<_>) = claims.into_iter().unzip();
    let granted =
        limiter::acquire(limits.services(), &claims).await.map_err(|(_, rejection)| rejection)?;
    let held = positions.into_iter().zip(granted);
    Ok(held
        .filter_map(|(n, granted)| Some((n, Permit::new(limits.services(), granted?))))
        .collect())
}

impl CompiledMember {
    fn claim(&self, limits: &Limits, request: &request::Parts) -> Result<Option<Claim>, Rejection> {
        let Member { skip_if, permits, .. } = &self.member;
        if skip_if.as_ref().is_some_and(|skip_if| skip_if(request)) {
            return Ok(None);
        }
        let core = self.core(limits, &self.name(limits, request)?);
        let wait = core.wait_if_set(limits.services());
        let permits = permits.as_ref().map_or(1, |permits| permits(request));
        Ok(Some(Claim { core, permits, wait, fallible: true }))
    }

    /// Renders the key.
    fn name(&self, limits: &Limits, request: &request::Parts) -> Result<KeyName, Rejection> {
        let mut writer = KeyWriter::new("");
        let (first, literals) = self.template.literals().split_first().expect("one at the least");
        writer.literal(first);
        for (placeholder, literal) in self.template.placeholders().iter().zip(literals) {
            match value_of(&self.member, placeholder) {
                Some(value) => (value.write)(request, &mut writer),
                None => writer.display(&Displayed(&self.client(limits, request)?)),
            }
            writer.literal(literal);
        }
        Ok(writer.finish())
    }

    fn client(&self, limits: &Limits, request: &request::Parts) -> Result<ClientIp, Rejection> {
        let peer = peer_of(&request.extensions);
        let peer = peer.ok_or_else(|| unknown_peer(self.template.text()))?;
        Ok(ClientIp::found(peer, &request.headers, |address| limits.trusts(address)))
    }

    fn core(&self, limits: &Limits, name: &str) -> Arc<Core> {
        let services = limits.services();
        let known = self.known.load();
        let settings = self.member.settings.as_ref();
        if let Some(known) = known.as_ref().filter(|known| known.limits == services.id) {
            return known.declared.core_given(services, name, settings);
        }
        let declared = limits.registry().of_template(&self.template);
        let known = Known { limits: services.id, declared: Arc::clone(&declared) };
        self.known.store(Some(Arc::new(known)));
        declared.core_given(services, name, settings)
    }
}

/// The last value that was set for a placeholder.
fn value_of<'a>(member: &'a Member, placeholder: &Placeholder) -> Option<&'a Value> {
    let path = &placeholder.path;
    let is_of = |value: &&Value| match &path[..] {
        [name] => *name == value.name,
        path => path.join(".") == value.name,
    };
    member.values.iter().rev().find(is_of)
}

/// Placeholders without a value, and values that may be absent where the template does not say so.
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
