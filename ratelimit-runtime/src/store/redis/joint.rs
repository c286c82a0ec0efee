//! One script call for several limiters.

use redis::{Cmd, Value};

use super::{
    link::Live,
    reply::Told,
    script::{ACQUIRE_JOINTLY, Call, add_request, write_runs},
    windows::Windows,
};
use crate::{
    StoreError, clock,
    store::{Outcome, Reply, Request, StateKeys},
};

/// The script that takes of all limiters or of none: a row of costs for each limiter, in it one for each
/// caller.
pub(super) struct AskJointly<'a> {
    pub(super) requests: &'a [Request<'a>],
    pub(super) costs: &'a [&'a [u32]],
    pub(super) windows: Windows,
}

impl AskJointly<'_> {
    /// The command, with the time since when the process has each configuration.
    pub(super) fn since(&self, since_us: impl Fn(&Request<'_>) -> u64, by_name: bool) -> Cmd {
        let limiters = self.requests.iter().map(|request| request.keys);
        let mut command = ACQUIRE_JOINTLY.on_all(limiters, by_name);
        let runs = runs(self.costs);
        for (request, costs) in self.requests.iter().zip(self.costs) {
            let mut first = 0;
            let row = write_runs(runs.iter().map(|&count| {
                first += count;
                (costs[first - count], count)
            }));
            add_request(&mut command, request, &row, since_us(request));
        }
        command
    }
}

impl Call for AskJointly<'_> {
    fn keys(&self) -> &StateKeys {
        self.requests[0].keys
    }

    fn command(&self, live: &Live, by_name: bool) -> Cmd {
        let mut command = self.since(|request| live.server_time(request.since), by_name);
        // The time stands in between, in tests.
        self.windows.append(&mut command, 1, || live.server_time(clock::instant()) / 1000);
        command
    }
}

/// Reads the replies to such a call.
pub(super) fn read_jointly(
    value: &Value,
    requests: &[Request<'_>],
    costs: &[&[u32]],
) -> Result<Vec<Vec<Reply>>, StoreError> {
    let unknown = || StoreError::unavailable(format!("redis: unknown reply {value:?}"));
    let Value::Array(values) = value else { return Err(unknown()) };
    if values.len() != requests.len() {
        return Err(unknown());
    }
    let limiters = values.iter().zip(requests).zip(costs);
    let limiters: Result<Vec<_>, _> = limiters
        .map(|((value, request), costs)| Told::read(value, costs, &request.config))
        .collect();
    Ok(decide(limiters?, costs))
}

/// How many callers in a row ask for equal costs of each limiter.
fn runs(costs: &[&[u32]]) -> Vec<usize> {
    let callers = costs.first().map_or(0, |row| row.len());
    let mut runs: Vec<usize> = Vec::new();
    for caller in 0..callers {
        let like_the_last = caller > 0 && costs.iter().all(|row| row[caller] == row[caller - 1]);
        match runs.last_mut() {
            Some(run) if like_the_last => *run += 1,
            _ => runs.push(1),
        }
    }
    runs
}

/// What each caller got of what was free of each limiter.
fn decide(mut limiters: Vec<Told>, costs: &[&[u32]]) -> Vec<Vec<Reply>> {
    let admit = limiters.iter().all(Told::is_counted);
    let callers = costs.first().map_or(0, |row| row.len());
    let mut replies = vec![Vec::with_capacity(callers); limiters.len()];
    for caller in 0..callers {
        let answer = |(limiter, row): (&mut Told, &&[u32])| limiter.answer(row[caller]);
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
        let head = [kind, free, 0, 99, 5, 1000, 0, 0, 0];
        Value::Array(head.iter().chain(waits).map(|&number| Value::Int(number)).collect())
    }

    /// The outcomes and waits of two limiters of five, for a caller who wants 2 of each.
    fn read(values: Vec<Value>) -> Result<Vec<(Outcome, u64)>, StoreError> {
        let keys = ["{a}:1", "{a}:2"].map(StateKeys::new);
        let five = Config::new(5, 1000, Mode::Overall);
        let requests = [&keys[0], &keys[1]].map(|keys| Request::new(keys, five, clock::instant()));
        let replies = read_jointly(&Value::Array(values), &requests, &[&[2], &[2]])?;
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
            // What is foreign is an error for everybody.
            vec![fine(), told(4, 0, &[])],
        ] {
            assert!(read(values.clone()).is_err(), "{values:?}");
        }
    }

    #[test]
    fn a_run_is_of_callers_who_ask_the_same_of_each_limiter() {
        assert_eq!(runs(&[&[1, 1, 1, 2], &[5, 5, 6, 6]]), [2, 1, 1]);
        assert_eq!(runs(&[&[1], &[5]]), [1]);
    }
}
