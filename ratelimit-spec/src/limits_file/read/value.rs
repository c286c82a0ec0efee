//! The values of settings.

use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::Algorithm;
use crate::calendar::TimeZone;
use crate::limit::Limit;
use crate::limits_file::fields::Field;
use crate::limits_file::problem::Report;
use crate::limits_file::read::{limits, penalty};
use crate::limits_file::shape::{DURATION, PER, Shape, WAIT};
use crate::penalty::Penalty;
use crate::per::Per;
use crate::words::{Mode, OnDrift, OnStoreError, RefundOn, Wait};

/// The value of a setting.
pub(in crate::limits_file) trait Value: Sized {
    /// The form of the value; `None` for a number, whose range is in the table.
    const SHAPE: Option<Shape>;

    /// Reads the value, or reports a problem.
    fn read(field: &Field<'_>, shape: Shape, report: &mut Report) -> Option<Self>;
}

impl Value for bool {
    const SHAPE: Option<Shape> = Some(Shape::Flag);

    fn read(field: &Field<'_>, _: Shape, report: &mut Report) -> Option<Self> {
        report.boolean(field)
    }
}

impl Value for u32 {
    const SHAPE: Option<Shape> = None;

    fn read(field: &Field<'_>, shape: Shape, report: &mut Report) -> Option<Self> {
        report.number(field, shape)
    }
}

impl Value for Arc<[Limit]> {
    const SHAPE: Option<Shape> = Some(limits::SHAPE);

    fn read(field: &Field<'_>, shape: Shape, report: &mut Report) -> Option<Self> {
        limits::limits(field, shape, report)
    }
}

impl Value for Penalty {
    const SHAPE: Option<Shape> = Some(penalty::SHAPE);

    fn read(field: &Field<'_>, shape: Shape, report: &mut Report) -> Option<Self> {
        penalty::penalty(field, shape, report)
    }
}

impl Value for Duration {
    const SHAPE: Option<Shape> = Some(DURATION);

    fn read(field: &Field<'_>, _: Shape, report: &mut Report) -> Option<Self> {
        report.duration(field)
    }
}

impl Value for Per {
    const SHAPE: Option<Shape> = Some(PER);

    fn read(field: &Field<'_>, _: Shape, report: &mut Report) -> Option<Self> {
        report.per(field)
    }
}

macro_rules! words {
    ($($ty:ty = $shape:expr;)+) => {$(
        impl Value for $ty {
            const SHAPE: Option<Shape> = Some($shape);

            fn read(field: &Field<'_>, shape: Shape, report: &mut Report) -> Option<Self> {
                report.word(field, shape)
            }
        }
    )+};
}

words! {
    Mode = Shape::Word(Mode::WORDS);
    Algorithm = Shape::Word(Algorithm::WORDS);
    OnStoreError = Shape::Word(OnStoreError::WORDS);
    RefundOn = Shape::Word(RefundOn::WORDS);
    OnDrift = Shape::Word(OnDrift::WORDS);
    Wait = WAIT;
    TimeZone = Shape::Text("a name of the IANA database such as `Europe/Vienna`", "Europe/Vienna");
}
