//! `penalty`: when a key is blocked, and for how long.

use std::time::Duration;

use ratelimit_spec::Penalty;

use super::{check_reports, parse};

#[test]
fn a_block_grows_only_if_the_file_says_so() {
    let file = parse(
        "default: { penalty: { after: 3, block: 5m, up_to: 1d } }\nlimiters: { a: { penalty: { after: 1, block: 90s } } }\n",
    );
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let grows = Penalty { after: 3, block: minutes(5), up_to: minutes(24 * 60) };
    assert_eq!(file.default.penalty, Some(grows));
    assert_eq!(grows.to_string(), "after 3, block 5m, up to 1d");
    let stays = file.limiter("a").unwrap().settings.penalty.unwrap();
    assert_eq!((stays.block, stays.up_to), (Duration::from_secs(90), Duration::from_secs(90)));
    assert_eq!(stays.to_string(), "after 1, block 1m30s");
}

#[test]
fn a_penalty_says_what_it_lacks() {
    check_reports(&[
        (
            "limiters:\n  a: { penalty: 5m }\n",
            "2:17: `penalty` cannot be the text `5m`; write fields such as `{ after: 3, block: 5m, up_to: 1d }`",
        ),
        (
            "limiters:\n  a:\n    penalty: { after: 0, block: 5m }\n",
            "3:23: `after` cannot be `0`; write a whole number from 1 to 4294967295",
        ),
        (
            "limiters:\n  a:\n    penalty: { block: 5m }\n",
            "3:5: a penalty needs `after`; write fields such as `{ after: 3, block: 5m, up_to: 1d }`",
        ),
        (
            "limiters:\n  a:\n    penalty: { after: 3, block: 5m, upto: 1d }\n",
            "3:37: unknown field `upto` in a penalty; did you mean `up_to`?",
        ),
        (
            "limiters:\n  a:\n    penalty: { after: 3, block: 5m, up_to: 1m }\n",
            "3:44: `up_to` of `1m` is shorter than `block`; write at least `5m`",
        ),
        (
            "limiters:\n  a:\n    penalty: { up_to: 1, block: 1, tries: 3 }\n",
            "3:5: a penalty needs `after`; write fields such as `{ after: 3, block: 5m, up_to: 1d }`\n\
             3:23: missing unit in `1`; write `1ms`, `1s`, `1m`, `1h` or `1d`\n\
             3:33: missing unit in `1`; write `1ms`, `1s`, `1m`, `1h` or `1d`\n\
             3:36: unknown field `tries` in a penalty; expected `after`, `block` or `up_to`",
        ),
        (
            "limiters:\n  a: { shards: 4, penalty: { after: 3, block: 5m } }\n",
            "2:19: `penalty` cannot be combined with `shards`, because each shard rejects calls on its own; remove one of them",
        ),
        (
            "limiters:\n  a: { mode: per_client, penalty: { after: 3, block: 5m } }\n",
            "2:26: `penalty` cannot be combined with mode `per_client`, which counts in each process; remove `penalty`",
        ),
    ]);
    // What is nearer than a penalty leaves it without effect.
    parse(
        "default: { penalty: { after: 3, block: 5m } }\nlimiters: { a: { mode: per_client }, b: { rate: 8, per: 1s, shards: 4 } }\n",
    );
}
