//! Several limits on one key.

use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::limit::Limit;
use crate::limits_file::fields::{Field, Section};
use crate::limits_file::node::{Node, Value};
use crate::limits_file::problem::{Position, Report};
use crate::limits_file::shape::{DURATION, Shape};
use crate::quota::check_count;
use crate::words::MAX_RATE;

const EXAMPLE: &str = "{ rate: 10, per: 1s }";

/// The field with its name.
pub(super) const WHOLE: &str = "limits: [{ rate: 10, per: 1s }, { rate: 1000, per: 1h }]";

const NUMBER: Shape = Shape::Number(1, "", MAX_RATE as u64);
pub(super) const SHAPE: Shape = Shape::Other(
    "a list such as `[{ rate: 10, per: 1s }, { rate: 1000, per: 1h }]`",
    r##""type": "array", "minItems": 1, "maxItems": 8, "items": { "$ref": "#/definitions/limit" }"##,
);

/// The fields of one limit.
pub(in crate::limits_file) const FIELDS: [(&str, Shape); 4] = [
    ("rate", NUMBER),
    ("per", DURATION),
    ("algorithm", Shape::Word(Algorithm::WORDS)),
    ("burst", NUMBER),
];

/// Reads the limits, if none has a problem.
pub(super) fn limits(field: &Field<'_>, shape: Shape, report: &mut Report) -> Option<Arc<[Limit]>> {
    let Value::List(nodes) = &field.value.value else {
        report.wrong(field, &shape.expected());
        return None;
    };
    if let Err(error) = check_count(nodes.len()) {
        report.refuse(field, &error);
        return None;
    }
    let limits = nodes.iter().map(|node| limit(node, node.position.or(field.position), report));
    let limits: Vec<Option<Limit>> = limits.collect();
    limits.into_iter().collect()
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
        match field.name {
            "rate" => rate = report.number(field, NUMBER),
            "per" => per = report.length(field),
            "algorithm" => algorithm = report.word(field, Shape::Word(Algorithm::WORDS)),
            "burst" => burst = report.number(field, NUMBER),
            _ => report.unknown(field, &FIELDS.map(|(name, _)| name), &section),
        }
    }
    for name in ["rate", "per"] {
        if fields.iter().all(|field| field.name != name) {
            report.add(position, || format!("a limit needs `{name}`; write `{EXAMPLE}`"));
        }
    }
    Some(Limit { rate: rate?, per: per?, algorithm, burst })
}
