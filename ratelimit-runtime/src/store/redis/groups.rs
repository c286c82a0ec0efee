//! One script call for groups of callers, each of one limiter or of several.

use redis::{Cmd, Value};

use super::{
    RedisStore,
    call::Call,
    fault::{failed, refuses_keys},
    line::Live,
    reply::{LimiterReply, read_replies, time_in, unknown_reply},
    script::{DECIDE, add_request, member_id},
    windows::{MOST_ATTEMPTS, Missing, Windows, missing, unsteady},
};
use crate::{
    StoreError, clock,
    store::{Decided, Group, Outcome, Reply, Request, StateKeys},
};

/// The call that decides groups, at least one.
pub(super) struct AskGroups<'a> {
    pub(super) groups: &'a [Group<'a>],
    pub(super) windows: Windows,
}

/// The script's reply for one group.
pub(super) enum Answer {
    Replies(Vec<Vec<Reply>>),
    /// Nothing was done, because it lacks windows of a calendar.
    Lacks(Missing),
}

impl AskGroups<'_> {
    /// Builds the command, with the time at which the process received each configuration.
    pub(super) fn since(&self, since_us: impl Fn(&Request<'_>) -> u64, by_name: bool) -> Cmd {
        let requests = self.groups.iter().flat_map(|group| group.requests);
        DECIDE.on_requests(requests, by_name, |command| {
            for group in self.groups {
                for (n, (request, costs)) in group.requests.iter().zip(group.costs).enumerate() {
                    let costs = write_costs(costs, group.costs, n > 0);
                    add_request(command, request, &costs, since_us(request));
                    command.arg(&member_id()[..]);
                }
            }
        })
    }
}

impl Call for AskGroups<'_> {
    fn keys(&self) -> &StateKeys {
        self.groups[0].requests[0].keys
    }

    fn command(&self, live: &Live, by_name: bool) -> Cmd {
        let mut command = self.since(|request| live.server_time(request.since), by_name);
        // In tests, the time is in between.
        self.windows.append(&mut command, 1, || live.server_time(clock::instant()) / 1000);
        command
    }

    fn may_need_hash_alone(&self) -> bool {
        matches!(self.groups, [Group { requests: [request], .. }] if request.may_have_hash_alone())
    }

    fn time_in(&self, reply: &Value) -> Option<u64> {
        match reply {
            Value::Array(values) => values.iter().find_map(time_in),
            _ => time_in(reply),
        }
    }

    fn needs_late_reply(&self) -> bool {
        true
    }
}

impl RedisStore {
    /// Decides groups, and repeats those that lack windows of a calendar, with these windows added.
    pub(super) async fn decide_groups(&self, groups: &[Group<'_>]) -> Result<Decided, StoreError> {
        let mut decided: Decided = Vec::with_capacity(groups.len());
        let mut open = Vec::new();
        for (n, group) in groups.iter().enumerate() {
            let is_open = group.callers() > 0;
            let empty =
                || if is_open { Vec::new() } else { vec![Vec::new(); group.requests.len()] };
            decided.push(group.check().map(|()| empty()));
            if is_open && decided[n].is_ok() {
                open.push(n);
            }
        }
        let mut windows = Windows::of(groups.iter().flat_map(|group| group.requests));
        for _ in 0..MOST_ATTEMPTS {
            if open.is_empty() {
                return Ok(decided);
            }
            let asked: Vec<_> = open.iter().map(|&n| groups[n]).collect();
            let answers = match self.answers(&asked, &windows).await {
                // A key that the Redis user may not access affects its own limiter alone.
                Err(error) if asked.len() > 1 && refuses_keys(&error) => {
                    let mut answers = Vec::with_capacity(asked.len());
                    for group in asked.chunks(1) {
                        let answer = self.answers(group, &windows).await;
                        answers.push(answer.and_then(|mut answers| answers.remove(0)));
                    }
                    answers
                }
                answers => answers?,
            };
            let mut lacking = Vec::new();
            for (n, answer) in open.into_iter().zip(answers) {
                match answer {
                    Ok(Answer::Replies(replies)) => decided[n] = Ok(replies),
                    Ok(Answer::Lacks(missing)) => {
                        windows.lack(missing);
                        lacking.push(n);
                    }
                    Err(error) => decided[n] = Err(error),
                }
            }
            open = lacking;
        }
        open.into_iter().for_each(|n| decided[n] = Err(unsteady()));
        Ok(decided)
    }

    async fn answers(
        &self,
        groups: &[Group<'_>],
        windows: &Windows,
    ) -> Result<Vec<Result<Answer, StoreError>>, StoreError> {
        let value = self.run(&AskGroups { groups, windows: windows.clone() }).await?;
        read_groups(&value, groups)
    }
}

/// Reads the replies to such a call.
pub(super) fn read_groups(
    value: &Value,
    groups: &[Group<'_>],
) -> Result<Vec<Result<Answer, StoreError>>, StoreError> {
    let mut values = match value {
        Value::Array(values) => &values[..],
        Value::BulkString(_) => std::slice::from_ref(value),
        _ => return Err(unknown_reply(value)),
    };
    let limiters: usize = groups.iter().map(|group| group.requests.len()).sum();
    if values.len() != limiters {
        return Err(unknown_reply(value));
    }
    let read = |group: &Group<'_>| {
        let (own, rest) = values.split_at(group.requests.len());
        values = rest;
        read_group(own, group)
    };
    Ok(groups.iter().map(read).collect())
}

fn read_group(values: &[Value], group: &Group<'_>) -> Result<Answer, StoreError> {
    // An error of a group is the reply for each of its limiters.
    if let Some(missing) = missing(&values[0], None)? {
        return Ok(Answer::Lacks(missing));
    }
    if let Some(error) = failed(&values[0]) {
        return Err(error);
    }
    if let [value] = values {
        let replies = read_replies(value, group.costs[0], &group.requests[0].config)?;
        return Ok(Answer::Replies(vec![replies]));
    }
    let limiters = values.iter().zip(group.requests).zip(group.costs);
    let read: Result<Vec<_>, _> = limiters
        .map(|((value, request), costs)| LimiterReply::read(value, costs, &request.config))
        .collect();
    Ok(Answer::Replies(decide(read?, group.costs)))
}

/// Writes the costs as runs of equal ones.
pub(super) fn runs(costs: &[u32]) -> String {
    write_costs(costs, &[costs], false)
}

/// Writes the costs of one of the `rows` as runs of callers with equal costs for each limiter: `3`, or
/// `1*200,5,1*55`. Starts with `&` if it is `joined` to the row before.
fn write_costs(costs: &[u32], rows: &[&[u32]], joined: bool) -> String {
    let mut text = String::from(if joined { "&" } else { "" });
    let mut first = 0;
    for next in 1..=costs.len() {
        if next < costs.len() && rows.iter().all(|row| row[next] == row[first]) {
            continue;
        }
        if first > 0 {
            text.push(',');
        }
        text.push_str(&costs[first].to_string());
        if next - first > 1 {
            text.push('*');
            text.push_str(&(next - first).to_string());
        }
        first = next;
    }
    text
}

/// Decides what each caller is granted of the free permits of each limiter.
fn decide(mut limiters: Vec<LimiterReply>, costs: &[&[u32]]) -> Vec<Vec<Reply>> {
    let admit = limiters.iter().all(LimiterReply::is_counted);
    let callers = costs.first().map_or(0, |row| row.len());
    let mut replies = vec![Vec::with_capacity(callers); limiters.len()];
    for caller in 0..callers {
        let answer = |(limiter, row): (&mut LimiterReply, &&[u32])| limiter.answer(row[caller]);
        let mut answers: Vec<_> = limiters.iter_mut().zip(costs).map(answer).collect();
        let granted = answers.iter().all(|reply| reply.outcome == Outcome::Granted);
        for ((reply, limiter), row) in answers.iter_mut().zip(&mut limiters).zip(costs) {
            if granted {
                reply.remaining = limiter.take(row[caller]);
            }
            reply.outcome = reply.outcome.jointly(granted, admit);
        }
        replies.iter_mut().zip(answers).for_each(|(row, reply)| row.push(reply));
    }
    replies
}

#[cfg(test)]
mod tests {
    use ratelimit_spec::Mode;

    use super::*;
    use crate::{clock, store::Config};

    fn told(kind: i64, free: i64, waits: &[i64]) -> Value {
        let head = [kind, free, 0, 99, 5, 1000, 0, 0, 0, 60, 0];
        Value::Array(head.iter().chain(waits).map(|&number| Value::Int(number)).collect())
    }

    /// The outcomes and waits of two limiters of five, for a caller who wants 2 of each.
    fn read(values: Vec<Value>) -> Result<Vec<(Outcome, u64)>, StoreError> {
        let keys = ["{a}:1", "{a}:2"].map(StateKeys::new);
        let five = Config::new(5, 1000, Mode::Overall);
        let requests = [&keys[0], &keys[1]].map(|keys| Request::new(keys, five, clock::instant()));
        let group = Group { requests: &requests, costs: &[&[2], &[2]] };
        let answer = read_groups(&Value::Array(values), &[group])?.remove(0)?;
        let Answer::Replies(replies) = answer else { panic!("nothing lacks") };
        Ok(replies.iter().flatten().map(|reply| (reply.outcome, reply.retry_after_ms)).collect())
    }

    #[test]
    fn each_limiter_says_what_it_has_to_say() {
        use Outcome::{Granted, NotTaken, PerClient, Refused};
        let both = |one, other| read(vec![one, other]).unwrap();
        assert_eq!(both(told(1, 5, &[0]), told(1, 2, &[7])), [(Granted, 0), (Granted, 7)]);
        assert_eq!(both(told(1, 5, &[0]), told(1, 1, &[7])), [(NotTaken, 0), (Refused, 7)]);
        assert_eq!(both(told(1, 0, &[9]), told(1, 1, &[7])), [(Refused, 9), (Refused, 7)]);
        assert_eq!(both(told(3, 0, &[]), told(1, 1, &[7])), [(PerClient, 0), (NotTaken, 7)]);
    }

    #[test]
    fn a_reply_of_unknown_shape_is_never_a_grant() {
        let fine = || told(1, 5, &[0]);
        for values in [
            vec![],
            vec![fine()],
            vec![fine(), fine(), fine()],
            vec![fine(), Value::Nil],
            vec![fine(), told(9, 5, &[0])],
            vec![fine(), told(1, 5, &[])],
            // An unsupported format is an error for the whole group.
            vec![fine(), told(4, 0, &[])],
        ] {
            assert!(read(values.clone()).is_err(), "{values:?}");
        }
    }

    #[test]
    fn a_run_is_of_callers_who_ask_the_same_of_each_limiter() {
        let rows: [&[u32]; 2] = [&[1, 1, 1, 2], &[5, 5, 6, 6]];
        assert_eq!(write_costs(rows[0], &rows, false), "1*2,1,2");
        assert_eq!(write_costs(rows[1], &rows, true), "&5*2,6,6");
        assert_eq!(write_costs(&[3], &[&[3]], false), "3");
        let row: &[u32] = &[1, 1, 5, 1, 2, 2, 2];
        assert_eq!(write_costs(row, &[row], false), "1*2,5,1,2*3");
    }
}
