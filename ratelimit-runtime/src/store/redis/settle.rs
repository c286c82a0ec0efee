//! Refunds of grants, and charges: the arguments and replies of their scripts.

use redis::{Cmd, Value};

use super::{
    RedisStore,
    call::{Call, Tell},
    line::Live,
    read,
    reply::{foreign, integer, read_limiter, unknown_reply},
    rule::write_rule,
    script::{CHARGE, GIVE_BACK, add_statement, member_id, member_text},
    windows::Windows,
};
use crate::{
    StoreError, clock,
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
        let charge = |windows| ChargeCall { request, charge, windows };
        let windows = Windows::of(std::slice::from_ref(request));
        let value = self.run_with_windows(windows, Some(&request.config), charge).await?;
        read_charged(&value, request)
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

/// A call of the script that charges.
pub(super) struct ChargeCall<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) charge: Charge,
    pub(super) windows: Windows,
}

impl ChargeCall<'_> {
    /// Builds the command, with the time in microseconds at which the process received its configuration.
    pub(super) fn since(&self, since_us: u64, by_name: bool) -> Cmd {
        let Charge { permits, max_debt, id } = self.charge;
        let mut command = CHARGE.on(self.request.keys, by_name);
        // Larger numbers are not exact in a script.
        let max_debt = max_debt.map(|most| most.min(1 << 52).to_string()).unwrap_or_default();
        let once = if id.is_some() { "/once" } else { "" };
        let words = format!("{permits}/{max_debt}{once}");
        add_statement(&mut command, self.request, &words, since_us);
        command.arg(&id.map_or_else(member_id, u64::to_be_bytes)[..]);
        command
    }
}

impl Call for ChargeCall<'_> {
    fn keys(&self) -> &StateKeys {
        self.request.keys
    }

    fn command(&self, live: &Live, by_name: bool) -> Cmd {
        let mut command = self.since(live.server_time(self.request.since), by_name);
        self.windows.append(&mut command, 1, || live.server_time(clock::instant()) / 1000);
        command
    }

    fn may_need_hash_alone(&self) -> bool {
        self.request.may_have_hash_alone()
    }
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
