//! The penalty of keys that are rejected repeatedly.

use std::time::Duration;

use crate::duration::format_duration;
use crate::limits_file::fields::{Field, Section};
use crate::limits_file::problem::Report;
use crate::limits_file::shape::Shape;
use crate::penalty::Penalty;

const AFTER: Shape = Shape::Number(1, "", u32::MAX as u64);
pub(super) const SHAPE: Shape = Shape::Other(
    "fields such as `{ after: 3, block: 5m, up_to: 1d }`",
    r##""type": "object", "required": ["after", "block"], "additionalProperties": false, "properties": { "after": { "type": "integer", "minimum": 1, "maximum": 4294967295 }, "block": { "$ref": "#/definitions/duration" }, "up_to": { "$ref": "#/definitions/duration" } }"##,
);

pub(super) fn penalty(field: &Field<'_>, shape: Shape, report: &mut Report) -> Option<Penalty> {
    let section = Section { place: " in a penalty", entry: "field" };
    let Ok(fields) = report.fields(field.value, &section) else {
        report.wrong(field, &shape.expected());
        return None;
    };
    let (mut after, mut block, mut up_to) = (None, None, None::<(&Field<'_>, Option<Duration>)>);
    for field in &fields {
        match field.name {
            "after" => after = report.number(field, AFTER),
            "block" => block = report.duration(field),
            "up_to" => up_to = Some((field, report.duration(field))),
            _ => report.unknown(field, &["after", "block", "up_to"], &section),
        }
    }
    for name in ["after", "block"] {
        if fields.iter().all(|field| field.name != name) {
            let expected = shape.expected();
            report.add(field.position, || format!("a penalty needs `{name}`; write {expected}"));
        }
    }
    let (after, block): (u32, Duration) = (after?, block?);
    let Some((field, up_to)) = up_to else {
        return Some(Penalty { after, block, up_to: block });
    };
    let up_to = up_to?;
    if up_to < block {
        let (this, least) = (format_duration(up_to), format_duration(block));
        let error =
            format!("`up_to` of `{this}` is shorter than `block`; write at least `{least}`");
        report.refuse(field, &error);
        return None;
    }
    Some(Penalty { after, block, up_to })
}
