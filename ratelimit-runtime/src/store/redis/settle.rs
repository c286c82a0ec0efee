//! Refunds of grants, and charges: the arguments and replies of their scripts.

use redis::Value;

use super::{
    RedisStore,
    call::Tell,
    read,
    reply::{foreign, integer, read_limiter, unknown_reply},
    rule::write_rule,
    script::{CHARGE, GIVE_BACK, member_id, member_text},
};
use crate::{
    StoreError,
    store::{Charge, Charged, Config, Grant, Outcome, Reply, Request, StateKeys, Store},
};

impl RedisStore {
    pub(super) async fn give_back_grant(
        &self,
        keys: &StateKeys,
        grant: &Grant,
    ) -> Result<u64, StoreError> {
        let value = self.run(&Tell::new(&GIVE_BACK, keys, give_back_words(grant))).await?;
        let (outcome, given): (u8, u64) = read(value)?;
        if outcome == 4 {
            // A configuration of a later version is the reason then.
            self.read(keys).await?;
            return Err(foreign());
        }
        Ok(given)
    }

    pub(super) async fn charge_now(
        &self,
        request: &Request<'_>,
        charge: Charge,
    ) -> Result<(Reply, Charged), StoreError> {
        let (words, id) = charge_words(&charge);
        read_charged(&self.ask(&CHARGE, request, &words, &id).await?, request)
    }
}

/// Returns the arguments of the script that refunds a grant.
pub(super) fn give_back_words(grant: &Grant) -> Vec<String> {
    let Grant { permits, ends_ms, moved, before_ms, config } = grant;
    let Config { rate, per_ms, .. } = *config;
    let mut words: Vec<_> =
        [(*permits).into(), *ends_ms, rate, per_ms].iter().map(u64::to_string).collect();
    let rule = write_rule(config).into_owned();
    words.extend([rule, format!("{moved}/{before_ms}"), member_text()]);
    words
}

/// Returns the first and the seventh argument of the script that charges.
pub(super) fn charge_words(charge: &Charge) -> (String, [u8; 8]) {
    let Charge { permits, max_debt, id } = charge;
    // Larger numbers are not exact in a script.
    let max_debt = max_debt.map(|most| most.min(1 << 52).to_string()).unwrap_or_default();
    let once = if id.is_some() { "/once" } else { "" };
    (format!("{permits}/{max_debt}{once}"), id.map_or_else(member_id, u64::to_be_bytes))
}

/// Reads the script's reply.
pub(super) fn read_charged(
    value: &Value,
    request: &Request<'_>,
) -> Result<(Reply, Charged), StoreError> {
    let (reply, rest) = read_limiter(value, &request.config)?;
    if reply.outcome != Outcome::Granted {
        return Ok((reply, Charged::default()));
    }
    let numbers: Option<Vec<u64>> = rest.iter().map(integer).collect();
    let Some([again, taken, debt, excess]) = numbers.as_deref() else {
        return Err(unknown_reply(value));
    };
    let charged = Charged { taken: *taken, debt: *debt, excess: *excess };
    Ok((Reply { retry_after_ms: *again, ..reply }, charged))
}
