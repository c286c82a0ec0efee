//! Several limits on one key.

use crate::algorithm::Algorithm;
use crate::limit::Limit;
use crate::limits_file::fields::{Field, Section};
use crate::limits_file::node::{Node, Value};
use crate::limits_file::problem::{Position, Report};
use crate::quota::check_count;
use crate::quote::either;
use crate::words::MAX_RATE;

const EXAMPLE: &str = "{ rate: 10, per: 1s }";
const FIELDS: &[&str] = &["rate", "per", "algorithm", "burst"];

/// Reads the limits, and where each one stands. Those with a problem are left out.
pub(super) fn limits(
    field: &Field<'_>,
    report: &mut Report,
) -> (Vec<Limit>, Vec<Option<Position>>) {
    let Value::List(nodes) = &field.value.value else {
        report.wrong(field, &format!("a list such as `[{EXAMPLE}, {{ rate: 1000, per: 1h }}]`"));
        return Default::default();
    };
    if let Err(error) = check_count(nodes.len()) {
        report.refuse(field, &error);
        return Default::default();
    }
    let read = |node: &Node| {
        let position = node.position.or(field.position);
        limit(node, position, report).map(|limit| (limit, position))
    };
    nodes.iter().filter_map(read).unzip()
}

fn limit(node: &Node, position: Option<Position>, report: &mut Report) -> Option<Limit> {
    let section = Section { place: " in a limit", entry: "field" };
    let fields = match report.fields(node, &section) {
        Ok(fields) => fields,
        Err(value) => {
            report.add(position, || {
                format!("a limit cannot be {value}; write fields such as `{EXAMPLE}`")
            });
            return None;
        }
    };
    let (mut rate, mut per, mut algorithm, mut burst) = (None, None, None, None);
    for field in &fields {
        let expected = "a whole number from 1 to 2147483647";
        match field.name {
            "rate" => rate = report.number(field, (1, MAX_RATE.into()), expected),
            "per" => per = report.length(field),
            "algorithm" => algorithm = report.word(field, &either(Algorithm::WORDS)),
            "burst" => burst = report.number(field, (1, MAX_RATE.into()), expected),
            _ => report.unknown(field, FIELDS, &section),
        }
    }
    for name in ["rate", "per"] {
        if fields.iter().all(|field| field.name != name) {
            report.add(position, || format!("a limit needs `{name}`; write `{EXAMPLE}`"));
        }
    }
    Some(Limit { rate: rate?, per: per?, algorithm, burst })
}
